"""Figures as pure functions of a report and a view of it: words, a table, and a drawing of the same numbers.

The page, the API and an exported report state the same numbers; no figure has one that the report lacks.
"""

from collections.abc import Callable, Mapping

from app.domain.report import Report
from app.figures.acceptance import acceptance_by_position, acceptance_map
from app.figures.costs import draft_cost, foretold_speedup, memory_by_part
from app.figures.curves import latency_by_load, latency_throughput, throughput_by_load
from app.figures.distributions import latency_distribution
from app.figures.figure import Figure, View
from app.figures.ratios import paired_blocks, speedup_by_condition, speedup_by_load, speedup_by_stratum

FIGURES: Mapping[str, Callable[[Report, View], Figure]] = {
    "speedup_by_condition": speedup_by_condition,
    "speedup_by_load": speedup_by_load,
    "paired_blocks": paired_blocks,
    "speedup_by_stratum": speedup_by_stratum,
    "latency_throughput": latency_throughput,
    "latency_by_load": latency_by_load,
    "throughput_by_load": throughput_by_load,
    "latency_distribution": latency_distribution,
    "acceptance_map": acceptance_map,
    "acceptance_by_position": acceptance_by_position,
    "foretold_speedup": foretold_speedup,
    "draft_cost": draft_cost,
    "memory_by_part": memory_by_part,
}
"""In the order in which a page shows them."""
