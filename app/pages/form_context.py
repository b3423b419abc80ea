"""What the form's templates share, and what a clone of an experiment begins with."""

import re
from typing import Any, Final

from app.domain.manifest import FORMAT, Manifest
from app.domain.proposer import METHODS_OFFERED, METHODS_WITH_MODEL
from app.pages.checks import check_groups, tally
from app.pages.form import WITH_DRAFT, FormState, K
from app.pages.form_looks import Look
from app.pages.inputs import FIELDS, SPECULATION, input_of, inputs_of, words_of
from app.pages.offer import Offer, RuntimeChoice
from app.pages.views import ENVIRONMENT

NAME_MAX: Final = 63
_NUMBERED: Final = re.compile(r"(.*?)-(\d{1,4})")
FIRST: Final = ("name", "runtime", "target_model", "blocks")
SECTIONS: Final = {
    "Decision": ("margins.", "slo.", "looks", "schedule_seed", "purpose"),
    "Serving, the same in every arm": ("serving.",),
    "Sampling, the same in every request": ("sampling.",),
    "Pins": ("target_tokenizer", "engine_below_floor"),
}
"""The advanced parts, by the beginnings of their fields."""
LABELS: Final = {
    "name": "Name",
    "blocks": "Blocks",
    "purpose": "Purpose",
    "looks": "Looks: blocks after which it may stop early",
    "schedule_seed": "Schedule seed",
    "engine_below_floor": "Why an engine below the security floor",
    "target_tokenizer": "Target tokenizer",
    "margins.delta": "Smallest effect worth acting on",
    "margins.confidence": "Confidence",
    "slo.ttft_ms": "TTFT objective",
    "slo.tpot_ms": "TPOT objective",
    "slo.e2e_ms": "E2E objective",
}
UNITS: Final = {
    "blocks": "repetitions",
    "margins.delta": "relative",
    "slo.ttft_ms": "ms",
    "slo.tpot_ms": "ms",
    "slo.e2e_ms": "ms",
    "serving.max_model_len": "tokens",
    "serving.kv_cache_space_gib": "GiB, CPU only",
}
HINTS: Final = {
    "name": "lower case, digits, . _ -",
    "blocks": "below 5 every verdict is exploratory",
    "looks": "such as 5, 8; empty: only at the end",
    "engine_below_floor": "empty, unless the runtime is an older vLLM; shown in the report",
    "target_tokenizer": "empty: the target's own",
    "sampling.temperature": "0 is greedy: outputs are compared exactly",
}


def form_context(form: FormState, offer: Offer, seen: Look) -> dict[str, Any]:
    """Everything but the two sides of the page."""
    context: dict[str, Any] = {
        "form": form,
        "offer": offer,
        "look": seen,
        "preflight": seen.found,
        "methods": [(method, method) for method in offer.methods()],
        "every_method": [(method, [k for k in inputs_of(method) if k != K]) for method in METHODS_OFFERED],
        "methods_with_draft": WITH_DRAFT,
        "sections": _sections(),
        "hint_of": lambda name: "; ".join(filter(None, (HINTS.get(name), words_of(name)))),
        "label_of": lambda name: LABELS.get(name, name.rpartition(".")[2]),
        "unit_of": lambda name: UNITS.get(name, ""),
        "input_of": input_of,
        "stated_keys": lambda row: [k for k in form.keys(row) if form.value(f"arms[{row}]{SPECULATION}{k}")],
        "ticks": _ticks(form, offer),
        "points": _points(form, offer),
        "models": _models(form, offer),
        "runtimes": _runtimes(form, offer),
        "advanced_open": any(n for n, _ in form.problems if n in FIELDS and n not in FIRST),
    }
    if seen.found is not None:
        context |= {"groups": check_groups(seen.found.checks), "tally": tally(seen.found.checks)}
    return context


def fragment(template: str, context: dict[str, Any]) -> str:
    """A part of the page alone."""
    return ENVIRONMENT.get_template(template).render(**context)


def with_drafts(form: FormState, offer: Offer) -> FormState:
    """Where no draft is asked for yet, the one that suits is proposed."""
    rows = [row for row in form.arm_rows if form.value(f"arms[{row}]{SPECULATION}method") not in METHODS_WITH_MODEL]
    proposed = {f"arms[{row}].draft_or_speculator": offer.draft for row in (*rows, "N")}
    return form.model_copy(update={"values": form.values | proposed})


def cloned(manifest: Manifest) -> dict[str, Any]:
    """The manifest as people write it, under the next name: the same manifest would be the same experiment."""
    document = manifest.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return {"format": FORMAT, **document, "name": next_name(manifest.name)}


def next_name(name: str) -> str:
    """``demo`` becomes ``demo-2``, and that ``demo-3``."""
    found = _NUMBERED.fullmatch(name)
    stem, number = (found[1], int(found[2]) + 1) if found else (name, 2)
    return f"{stem[: NAME_MAX - len(str(number)) - 1]}-{number}"


def _sections() -> list[tuple[str, list[str]]]:
    rest = [name for name in FIELDS if name not in FIRST]
    return [(title, [n for n in rest if n.startswith(begins)]) for title, begins in SECTIONS.items()]


def _ticks(form: FormState, offer: Offer) -> list[dict[str, Any]]:
    """Every workload that may be ticked: those stored here, then those that only the manifest names."""
    stored = {t.digest: {"digest": t.digest, "header": t.header, "name": t.header.name} for t in offer.traces}
    named = {d: {"digest": d, "header": None, "name": n} for d, n in form.strangers.get("workloads", ())}
    return list({**stored, **{d: entry for d, entry in named.items() if d not in stored}}.values())


def _points(form: FormState, offer: Offer) -> list[tuple[str, str]]:
    known = {name: load.offered for name, load in offer.loads().items()}
    return list((known | dict(form.strangers.get("loads", ()))).items())


def _runtimes(form: FormState, offer: Offer) -> list[RuntimeChoice]:
    chosen, known = form.value("runtime"), {r.value for r in offer.runtimes}
    other = RuntimeChoice(value=chosen, text=f"{chosen[:60]} (on no host here)")
    return [*offer.runtimes, *([other] if chosen and chosen not in known else [])]


def _models(form: FormState, offer: Offer) -> list[tuple[str, str]]:
    """Models to choose from, with those that the manifest names although nobody has them here."""
    known = dict(model.pair for model in offer.models)
    named = [v for n, v in form.values.items() if v and (n == "target_model" or n.endswith(".draft_or_speculator"))]
    return [*known.items(), *((ref, f"{ref} (on no host here)") for ref in dict.fromkeys(named) if ref not in known)]
