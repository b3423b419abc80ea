"""The browser form and the manifest it writes: every input is named by the manifest field it fills.

A problem of the manifest is therefore a problem of an input, and is shown beside it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import BaseModel, ConfigDict

from app.domain.errors import FieldProblem
from app.domain.preflight import Check, PreflightOutcome
from app.domain.proposer import METHODS_WITH_MODEL
from app.pages.inputs import FIELDS, SPECULATION, inputs_of
from app.pages.offer import Offer

ARM_ROWS = 3
ROW_MAX = 999
WITH_DRAFT = " ".join(sorted(METHODS_WITH_MODEL))
TEXTS = ("manifest", "base")
"""Inputs that hold a whole manifest, kept to the last space: what is pasted, and what the form was read from."""
DEFAULTS: Mapping[str, str] = {
    "name": "",
    "engine_below_floor": "",
    "serving.dtype": "float32",
    "serving.max_model_len": "1024",
    "serving.max_num_seqs": "16",
    "serving.prefix_caching": "false",
    "serving.enforce_eager": "true",
    "serving.kv_cache_space_gib": "1",
    "sampling.temperature": "0",
    "blocks": "5",
    "schedule_seed": "1",
    "margins.delta": "0.05",
    "margins.confidence": "0.95",
    "slo.ttft_ms": "500",
    "slo.tpot_ms": "50",
    "slo.e2e_ms": "5000",
    "arms[1].speculation.method": "ngram",
    "arms[1].speculation.num_speculative_tokens": "4",
}
_ROW = re.compile(r"arms\[(\d{1,3})\]")
_OF_RUNTIME = ("hardware", "software")
"""Fields that the form takes from the chosen runtime's host, so that their problems are the runtime's."""


class Beside(BaseModel):
    """Words beside an input that are no problem: what a check found, or why it could not be made."""

    model_config = ConfigDict(frozen=True)

    input: str
    outcome: PreflightOutcome
    words: str


class FormState(BaseModel):
    """What the form shows: values by input name, and problems by the input they belong to."""

    model_config = ConfigDict(frozen=True)

    values: dict[str, str]
    chosen: dict[str, tuple[str, ...]]
    """Values of inputs that may be ticked several times: ``workloads`` and ``loads``."""
    problems: tuple[tuple[str, str], ...] = ()
    """(input name, words) of each problem; the name is empty where no input fits."""
    beside: tuple[Beside, ...] = ()
    kept: tuple[str, ...] = ()
    """Fields of the manifest that the form does not show."""
    strangers: dict[str, tuple[tuple[str, str], ...]] = {}
    """Workloads, loads and arms of the manifest, whether they are known here or not, with words for each."""

    def value(self, name: str) -> str:
        """The value of one input."""
        return self.values.get(name, "")

    def wrong(self, name: str) -> list[str]:
        """The problems to show beside ``name``."""
        return [words for field, words in self.problems if field == name]

    def checked(self, name: str) -> list[Beside]:
        """The checks to show beside ``name``."""
        return [found for found in self.beside if found.input == name]

    @property
    def rows_posted(self) -> list[int]:
        """Indices of the rows that have a method, or had one and are not used any more."""
        named = {int(m[1]) for name in self.values if (m := _ROW.match(name)) and name.endswith(f"{SPECULATION}method")}
        return sorted(row for row in named if 0 <= row <= ROW_MAX)

    @property
    def arm_rows(self) -> list[int]:
        """Indices of the proposer rows: those that are used, and empty ones to fill."""
        used = [row for row in self.rows_posted if self.value(f"arms[{row}]{SPECULATION}method")]
        free = max([len(self.strangers.get("arms", ())), *(row + 1 for row in used), 1])
        return used + list(range(free, free + max(0, ARM_ROWS - len(used))))

    def keys(self, row: int) -> tuple[str, ...]:
        """The keys of the row's method, beside its k."""
        return tuple(k for k in inputs_of(self.value(f"arms[{row}]{SPECULATION}method")) if k != K)


K = "num_speculative_tokens"


def empty_form(offer: Offer) -> FormState:
    """The form as first shown: sensible values, everything stored is ticked."""
    loads = offer.loads()
    regimes = {f"regime:{name}": ("latency", "serving")[i > 0] for i, name in enumerate(loads)}
    first = {"runtime": offer.runtimes[0].value if offer.runtimes else "", "target_model": offer.target}
    drafts = {f"arms[{row}].draft_or_speculator": offer.draft for row in (*range(1, ARM_ROWS + 1), "N")}
    chosen = {field: value for field, value in (first | drafts).items() if value}
    ticked = {"workloads": tuple(t.digest for t in offer.traces), "loads": tuple(loads)}
    return FormState(values={**DEFAULTS, **regimes, **chosen}, chosen=ticked)


def read_form(pairs: Iterable[tuple[str, str]]) -> FormState:
    """What was posted."""
    posted = [(name, value if name in TEXTS else value.strip()) for name, value in pairs]
    chosen = {field: tuple(v for n, v in posted if n == field) for field in ("workloads", "loads")}
    return FormState(values={n: v for n, v in posted if n not in chosen}, chosen=chosen)


def with_problems(form: FormState, problems: Iterable[FieldProblem], inputs: Sequence[str]) -> FormState:
    """The same form, each problem placed beside the input with the longest name that leads its field."""
    placed = tuple(dict.fromkeys(_placed(p, inputs) for p in problems))
    return form.model_copy(update={"problems": placed})


def with_checks(form: FormState, checks: Iterable[Check], inputs: Sequence[str]) -> FormState:
    """The same form, with what passes and what cannot be checked beside the inputs that it is about."""
    told = [c for c in checks if c.outcome in {PreflightOutcome.PASS, PreflightOutcome.NOT_CHECKABLE}]
    placed = (Beside(input=_input_of(c.field, inputs), outcome=c.outcome, words=_found(c)) for c in told)
    return form.model_copy(update={"beside": tuple(dict.fromkeys(b for b in placed if b.input))})


def input_names(form: FormState) -> list[str]:
    """Every place of the form that can show a problem."""
    arms = [
        f"arms[{row}]{part}"
        for row in form.arm_rows
        for part in ("", ".name", ".draft_or_speculator", f"{SPECULATION}method", f"{SPECULATION}{K}")
    ]
    keys = [f"arms[{row}]{SPECULATION}{key}" for row in form.arm_rows for key in form.keys(row)]
    return [*FIELDS, "runtime", "target_model", "workloads", "loads", *arms, *keys, "arms", "manifest"]


def _found(check: Check) -> str:
    return check.name if check.outcome is PreflightOutcome.PASS else f"{check.name}: {check.reason}"


def _placed(problem: FieldProblem, inputs: Sequence[str]) -> tuple[str, str]:
    words = f"{problem.message}; {problem.remedy}"
    if inputs == ["manifest"]:
        return "manifest", f"{problem.field}: {words}"
    name = _input_of(problem.field, inputs)
    return name, words if name == problem.field else f"{problem.field}: {words}"


def _input_of(field: str, inputs: Sequence[str]) -> str:
    if field.startswith(_OF_RUNTIME):
        return "runtime"
    return max((n for n in inputs if _leads(n, field)), key=len, default="")


def _leads(name: str, field: str) -> bool:
    return field == name or (field.startswith(name) and field[len(name)] in ".[")
