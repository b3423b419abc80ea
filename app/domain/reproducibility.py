"""The reproducibility checklist: ten items, each met, not met or not applicable, with the evidence and what to do."""

from app.domain.reproducibility_outcome import controls, loads, outputs, published, quantities
from app.domain.reproducibility_setup import pins, same_workload, startup, strata, swept
from app.domain.reproducibility_terms import Check, ChecklistItem, Facts, ItemState

__all__ = ["Check", "ChecklistItem", "Facts", "ItemState", "checklist"]

ITEMS = (pins, startup, same_workload, strata, swept, quantities, outputs, loads, controls, published)


def checklist(facts: Facts) -> tuple[ChecklistItem, ...]:
    """In the order in which an experiment is made: set up, measured, controlled, published."""
    return tuple(evaluate(facts) for evaluate in ITEMS)
