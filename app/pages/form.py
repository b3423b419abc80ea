"""The browser form and the manifest it writes: every input is named by the manifest field it fills.

A problem of the manifest is therefore a problem of an input, and is shown beside it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict

from app.domain.errors import FieldProblem
from app.domain.manifest import FORMAT
from app.domain.proposer import METHODS_WITH_MODEL
from app.domain.trace_header import TraceLoad
from app.domain.vocabulary import BASELINE_ARM, RateKind
from app.pages.offer import Offer

ARM_ROWS = 3
ARMS_MAX = 31
WITH_DRAFT = " ".join(sorted(METHODS_WITH_MODEL))
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
_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_OF_RUNTIME = ("hardware", "software")
"""Fields that the form takes from the chosen runtime's host, so that their problems are the runtime's."""


class FormState(BaseModel):
    """What the form shows: values by input name, and problems by the input they belong to."""

    model_config = ConfigDict(frozen=True)

    values: dict[str, str]
    chosen: dict[str, tuple[str, ...]]
    """Values of inputs that may be ticked several times: ``workloads`` and ``loads``."""
    problems: tuple[tuple[str, str], ...] = ()
    """(input name, words) of each problem; the name is empty where no input fits."""

    def value(self, name: str) -> str:
        """The value of one input."""
        return self.values.get(name, "")

    def wrong(self, name: str) -> list[str]:
        """The problems to show beside ``name``."""
        return [words for field, words in self.problems if field == name]

    @property
    def arm_rows(self) -> range:
        """Indices of the proposer rows; row 0 of the manifest is always target-only."""
        used = [int(m.group(1)) for n, v in self.values.items() if v and (m := re.match(r"arms\[(\d+)\]", n))]
        return range(1, max([ARM_ROWS, *used]) + 1)


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
    """What was posted, with unused proposer rows closed up so that indices are the manifest's."""
    posted = [(name, value if name == "manifest" else value.strip()) for name, value in pairs]
    chosen = {field: tuple(v for n, v in posted if n == field) for field in ("workloads", "loads")}
    values = {n: v for n, v in posted if n not in chosen}
    rows = sorted({int(m.group(1)) for n in values if (m := re.match(r"arms\[(\d+)\]", n))})
    used = [row for row in rows if values.get(f"arms[{row}].speculation.method")][:ARMS_MAX]
    kept = {n: v for n, v in values.items() if not n.startswith("arms[")}
    for index, row in enumerate(used, 1):
        old = f"arms[{row}]"
        kept |= {f"arms[{index}]{n[len(old) :]}": v for n, v in values.items() if n.startswith(f"{old}.")}
    return FormState(values=kept, chosen=chosen)


def manifest_document(form: FormState, offer: Offer) -> dict[str, Any]:
    """The manifest as the form states it, not yet validated; empty inputs are left out."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "arms": [{"name": BASELINE_ARM, "speculation": {"method": "target_only"}}],
    }
    for name in input_names(form):
        if form.value(name) and name != "manifest":
            _put(document, name, form.value(name))
    for arm in document["arms"][1:]:
        _complete(arm)
    document["target_tokenizer"] = document.get("target_model")
    traces = {t.digest: t.header.name for t in offer.traces}
    document["workloads"] = [{"name": traces.get(d, d), "trace": d} for d in form.chosen["workloads"]]
    known = offer.loads()
    document["loads"] = [_load(n, form.value(f"regime:{n}"), known.get(n)) for n in form.chosen["loads"]]
    return document | offer.hosts.get(form.value("runtime"), {})


def with_problems(form: FormState, problems: Iterable[FieldProblem], inputs: Sequence[str]) -> FormState:
    """The same form, each problem placed beside the input with the longest name that leads its field."""
    placed = tuple(dict.fromkeys(_placed(p, inputs) for p in problems))
    return form.model_copy(update={"problems": placed})


def input_names(form: FormState) -> list[str]:
    """Every place of the form that can show a problem."""
    arms = [
        f"arms[{row}]{part}"
        for row in form.arm_rows
        for part in ("", ".name", ".draft_or_speculator", ".speculation.method", ".speculation.num_speculative_tokens")
    ]
    return [*DEFAULTS, "runtime", "target_model", "workloads", "loads", *arms, "arms", "manifest"]


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


def _complete(arm: dict[str, Any]) -> None:
    speculation = arm["speculation"]
    if speculation["method"] not in METHODS_WITH_MODEL:
        arm.pop("draft_or_speculator", None)
    k = speculation.get("num_speculative_tokens", "")
    named = "" if "," in k else f"-k{k}"  # several make a grid, whose arms are named by the manifest
    default = f"{speculation['method']}{named}".replace("_", "-")
    arm.setdefault("name", default)


def _load(name: str, regime: str, known: TraceLoad | None) -> dict[str, Any]:
    """A load point as the manifest writes it; one that no stored trace has lacks its rate."""
    stated: dict[str, Any] = {"name": name, "regime": regime or "serving"}
    if known is None or known.rate_rps is not None:
        return stated | {"rate_rps": None if known is None else known.rate_rps}
    return stated | {"kind": RateKind.CLOSED_LOOP, "clients": known.clients}


def _put(document: dict[str, Any], name: str, value: str) -> None:
    steps = [int(i) if i else key for key, i in _STEP.findall(name)]
    place: Any = document
    for step, following in pairwise(steps):
        if isinstance(step, int):
            place.extend({} for _ in range(len(place), step + 1))
            place = place[step]
        else:
            place = place.setdefault(step, [] if isinstance(following, int) else {})
    place[steps[-1]] = value
