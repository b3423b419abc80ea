"""How the columns, orders and choices of the cases' page are called."""

from typing import Final

from app.cases.query import Answer, Scored, Sort, Which
from app.domain.manifest import Manifest
from app.domain.vocabulary import Outcome

COLUMNS: Final = (
    ("late", "Late", "ms"),
    ("ttft", "TTFT", "ms"),
    ("tpot", "TPOT", "ms"),
    ("e2e", "E2E", "ms"),
    ("ratio", "E2E ratio", "to target-only\u2019s"),
    ("prompt", "Prompt", "tokens"),
    ("tokens", "Output", "tokens"),
    ("acceptance", "Acceptance", "accepted / drafted"),
)
"""Those that can be sorted by, with their units."""
_UP_AND_DOWN: Final = {
    "e2e": ("slowest end to end", "fastest end to end"),
    "ttft": ("slowest first token", "fastest first token"),
    "tpot": ("slowest tokens", "fastest tokens"),
    "late": ("sent latest", "sent earliest"),
    "ratio": ("worst against target-only", "best against target-only"),
    "acceptance": ("most accepted", "least accepted"),
    "tokens": ("longest output", "shortest output"),
    "prompt": ("longest prompt", "shortest prompt"),
    "request": ("request id, Z to A", "request id, A to Z"),
}
SORT_WORDS: Final = {sort: _UP_AND_DOWN[sort.column][0 if sort.down else 1] for sort in Sort}
WORDS: Final = {
    Answer.SAME: "the same as target-only\u2019s",
    Answer.DIFFERS: "another than target-only\u2019s",
    Scored.CORRECT: "correct",
    Scored.WRONG: "wrong",
    Scored.UNSCORED: "not scored",
    Which.COUNTED: "compared runs",
    Which.LEFT_OUT: "void and failed runs",
    Which.ANY: "all runs",
}

Choices = dict[str, list[tuple[str, str]]]
"""Field → what can be chosen, each with its words."""


def choices(manifest: Manifest) -> Choices:
    """What the page's selects offer."""
    named = {"arm": manifest.arms, "workload": manifest.workloads, "load": manifest.loads}
    words = {"answer": Answer, "score": Scored, "runs": Which}
    return {
        **{field: [(one.name, one.name) for one in of] for field, of in named.items()},
        "outcome": [(str(outcome.value), outcome.value.replace("_", " ")) for outcome in Outcome],
        **{field: [(str(word.value), WORDS[word]) for word in of] for field, of in words.items()},
        "sort": [(str(sort.value), SORT_WORDS[sort]) for sort in Sort],
    }
