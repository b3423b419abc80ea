"""Between the form and the manifest that it stands for, in both directions; the manifest is the truth.

What the form does not show is left as it was written. ``shown`` reads a manifest into the form; ``merged`` writes the
form onto the manifest that it was read from.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

import yaml

from app.domain.errors import DomainError, FieldProblem
from app.domain.layout import SINGLE_ARM, listed
from app.domain.manifest import FORMAT, Manifest
from app.domain.proposer import METHODS_WITH_MODEL, Speculation
from app.domain.references import NO_DRAFT
from app.domain.trace_header import TraceLoad
from app.domain.vocabulary import BASELINE_ARM, Method, RateKind
from app.pages.form import FormState
from app.pages.inputs import FIELDS, OF_ARM, SHOWN, SPECULATION, inputs_of, text_of, value_of
from app.pages.offer import Offer

ARMS_MAX: Final = 32
BASELINE: Final = {"name": BASELINE_ARM, "speculation": {"method": str(Method.TARGET_ONLY)}}
_TICKED: Final = {"workloads": ("trace", frozenset({"name", "trace"})), "loads": ("name", frozenset())}
"""What an entry is ticked by, and the keys that the form shows of it."""
_LINE: Final = 110
Document = dict[str, Any]


class NotShown(DomainError):
    """The form has no inputs for a manifest of this shape; the YAML stays as it is."""

    title = "The form cannot show this manifest"


class Merged(NamedTuple):
    """A manifest as the form states it, not yet validated; ``rows`` has the form's row of each arm that has one."""

    document: Document
    rows: Mapping[int, int]
    single: bool = False
    """Its one arm stands at the top level: the second of the form's."""

    def in_form(self, problem: FieldProblem) -> FieldProblem:
        """The same problem, its arm counted as the form counts."""
        if self.single and problem.field.partition(".")[0] in SINGLE_ARM:
            return FieldProblem(f"arms[1].{problem.field}", problem.message, problem.remedy)
        index, _, rest = problem.field.removeprefix("arms[").partition("]")
        if not problem.field.startswith("arms[") or not index.isdigit():
            return problem
        row = self.rows.get(int(index))
        field = "arms" if row is None else f"arms[{row}]{rest}"
        return FieldProblem(field, problem.message, problem.remedy)


def shown(document: Any) -> FormState:
    """The form of a decoded manifest; raises ``NotShown`` where it has no inputs for it."""
    if not isinstance(document, dict):
        raise NotShown.of("(document)", "it is no list of fields with values", "write `name: value` lines")
    told = listed(document)
    odd = [*_odd(told)]
    if odd:
        raise NotShown(*odd)
    values = {name: text_of(_at(told, name)) for name in FIELDS}
    values |= {name: text_of(told.get(name)) for name in ("runtime", "target_model")}
    if values["target_tokenizer"] == values["target_model"]:
        values["target_tokenizer"] = ""
    for index, arm in enumerate(told.get("arms", [])):
        values |= _arm_values(index, arm)
    values |= {f"regime:{load['name']}": text_of(load.get("regime")) for load in told.get("loads", [])}
    chosen = {part: tuple(entry[key] for entry in told.get(part, [])) for part, (key, _) in _TICKED.items()}
    return FormState(values=values, chosen=chosen, kept=tuple(_kept(told)), strangers=_strangers(told))


def as_pasted(document: Any) -> Merged:
    """A manifest that was not written by the form, whose arms are the form's rows."""
    told = listed(document)
    return Merged(
        document, {i: i for i, arm in enumerate(told.get("arms", [])) if _proposes(arm)}, "arms" not in document
    )


def merged(form: FormState, offer: Offer, base: Any = None) -> Merged:
    """The manifest of the form, with all that ``base`` says beside; raises ``NotShown`` if the form is not of it."""
    before = shown({} if base is None else base)
    document = deepcopy(listed(base or {}))
    if base is None:
        document = {"format": FORMAT, "arms": [deepcopy(BASELINE)]}
    for name in (*FIELDS, "runtime", "target_model"):
        if name in form.values and (base is None or form.value(name) != before.value(name)):
            _set(document, name, form.value(name))
    if not form.value("target_tokenizer") and "target_model" in document:
        document["target_tokenizer"] = document["target_model"]
    if base is None or form.value("runtime") != before.value("runtime"):
        document |= offer.hosts.get(form.value("runtime"), {})
    rows = _merge_arms(document, form, before)
    _merge_ticked(document, form, offer)
    return Merged(document if base is not None else _ordered(document), rows)


def written(document: Any) -> str:
    """The document as YAML; lists of single values on one line."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_LINE)


def default_name(method: str, k: str) -> str:
    """What an arm is called that has no name of its own; several k make a grid, whose arms get their k added."""
    return f"{method}{'' if ',' in k or not k else f'-k{k}'}".replace("_", "-")


class _Dumper(yaml.SafeDumper):
    """Indents lists below their key."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002, ARG002
        super().increase_indent(flow, indentless=False)

    def represent_list(self, data: Any) -> yaml.SequenceNode:
        single = all(not isinstance(item, dict | list) for item in data)
        return self.represent_sequence("tag:yaml.org,2002:seq", data, flow_style=single)


_Dumper.add_representer(list, _Dumper.represent_list)


def _odd(told: Document) -> Iterator[FieldProblem]:
    """Where the document has another shape than the form's inputs."""
    for name in (*FIELDS, "runtime", "target_model"):
        value = _at(told, name)
        if isinstance(value, dict):
            yield FieldProblem(name, "it is no single value", "write one value")
        part = name.partition(".")[0]
        if part != name and not isinstance(told.get(part, {}), dict):
            yield FieldProblem(part, "it is no list of fields with values", "write its fields below it, one a line")
    for part, key in (("arms", "speculation"), *((part, key) for part, (key, _) in _TICKED.items())):
        entries = told.get(part, [])
        if not isinstance(entries, list) or not all(isinstance(e, dict) and key in e for e in entries):
            yield FieldProblem(part, f"it is no list of entries with {key}", "write one entry after another")
        elif part != "arms" and len({str(e[key]) for e in entries}) < len(entries):
            yield FieldProblem(part, f"two entries have the same {key}", "the form can only tick each once")
        elif not all(isinstance(e[key], dict if part == "arms" else str) for e in entries):
            yield FieldProblem(part, f"a {key} has another form here", "write it as the documentation has it")


def _at(document: Document, name: str) -> Any:
    part, _, field = name.partition(".")
    value = document.get(part)
    return value if not field else value.get(field) if isinstance(value, dict) else None


def _set(document: Document, name: str, text: str) -> None:
    part, _, field = name.partition(".")
    place, key = (document.setdefault(part, {}), field) if field else (document, part)
    if text:
        place[key] = value_of(name, text)
    else:
        place.pop(key, None)
        if field and not place:
            document.pop(part)


def _proposes(arm: Document) -> bool:
    return arm["speculation"].get("method") != Method.TARGET_ONLY


def _arm_values(index: int, arm: Document) -> dict[str, str]:
    """Of a proposer; target-only has no row, whatever it is called."""
    if not _proposes(arm):
        return {}
    at, speculation = f"arms[{index}]", arm["speculation"]
    method, k = text_of(speculation.get("method")), text_of(speculation.get("num_speculative_tokens"))
    values = {f"{at}{SPECULATION}{key}": text_of(speculation.get(key)) for key in inputs_of(method)}
    draft, name = text_of(arm.get("draft_or_speculator")), text_of(arm.get("name"))
    values[f"{at}.draft_or_speculator"] = "" if draft == NO_DRAFT else draft
    values[f"{at}.name"] = "" if name == default_name(method, k) else name
    return values | {f"{at}{SPECULATION}method": method}


def _kept(told: Document) -> Iterator[str]:
    """What the manifest says and the form does not show."""
    yield from (key for key in told if key not in SHOWN | {"arms", "workloads", "loads", "hardware", "software"})
    parts = ("serving", "sampling", "slo", "margins")
    yield from (f"{p}.{k}" for p in parts for k in told.get(p, {}) if f"{p}.{k}" not in FIELDS)
    for index, arm in enumerate(told.get("arms", [])):
        known = {"method", *inputs_of(text_of(arm["speculation"].get("method")))}
        yield from (f"arms[{index}].{key}" for key in arm if key not in OF_ARM)
        yield from (f"arms[{index}]{SPECULATION}{key}" for key in arm["speculation"] if key not in known)
    for index, workload in enumerate(told.get("workloads", [])):
        yield from (f"workloads[{index}].{key}" for key in workload if key not in _TICKED["workloads"][1])


def _strangers(told: Document) -> dict[str, tuple[tuple[str, str], ...]]:
    """Every workload, load and arm of the manifest, with words for it: it may be known here, or not."""
    loads = tuple((p["name"], _offered(p)) for p in told.get("loads", []))
    arms = tuple((text_of(a.get("name")), text_of(a["speculation"].get("method"))) for a in told.get("arms", []))
    workloads = tuple((w["trace"], text_of(w.get("name"))) for w in told.get("workloads", []))
    return {"workloads": workloads, "loads": loads, "arms": arms}


def _offered(load: Document) -> str:
    if load.get("clients") is not None:
        return f"closed loop of {text_of(load['clients'])}"
    return f"{text_of(load.get('rate_rps'))} requests/s"


def _merge_arms(document: Document, form: FormState, before: FormState) -> dict[int, int]:
    """Write the rows onto the arms that they were read from; those that are not used go, new ones come last."""
    arms: list[Document] = document.setdefault("arms", [deepcopy(BASELINE)])
    result: list[Document] = []
    rows: dict[int, int] = {}
    posted = {row: form.value(f"arms[{row}]{SPECULATION}method") for row in form.rows_posted}
    for index, arm in enumerate(arms):
        if index not in posted or not _proposes(arm):
            result.append(arm)
        elif posted[index]:
            rows[len(result)] = index
            result.append(_merged_arm(arm, index, form, before))
    for row in sorted(row for row, method in posted.items() if method and row >= len(arms)):
        if len(result) < ARMS_MAX:
            rows[len(result)] = row
            result.append(_merged_arm({}, row, form, before))
    document["arms"] = result
    return rows


def _merged_arm(arm: Document, row: int, form: FormState, before: FormState) -> Document:
    at = f"arms[{row}]"
    method = form.value(f"{at}{SPECULATION}method")
    speculation: Document = dict(arm.get("speculation", {}))
    if speculation.get("method") != method:
        other = set(Speculation.model_fields) - {*inputs_of(method)}
        speculation = {"method": method, **{k: v for k, v in speculation.items() if k not in other}}
    for key in inputs_of(method):
        name = f"{at}{SPECULATION}{key}"
        if name in form.values and form.value(name) != before.value(name):
            speculation.pop(key, None)
            speculation |= {key: value_of(name, form.value(name))} if form.value(name) else {}
    name = form.value(f"{at}.name") or default_name(method, text_of(speculation.get("num_speculative_tokens")))
    told = {"name": name, **{k: v for k, v in arm.items() if k not in OF_ARM}}
    draft = form.values.get(f"{at}.draft_or_speculator", text_of(arm.get("draft_or_speculator")))
    if draft and draft != NO_DRAFT and method in METHODS_WITH_MODEL:
        told["draft_or_speculator"] = draft
    elif method not in METHODS_WITH_MODEL:
        told.pop("provenance", None)
    return {**told, "speculation": speculation}


def _merge_ticked(document: Document, form: FormState, offer: Offer) -> None:
    """Entries that stay ticked stay as they were; the others come from what is stored here."""
    traces, known = {t.digest: t.header.name for t in offer.traces}, offer.loads()
    workloads = {w["trace"]: w for w in document.get("workloads", [])}
    ticked = _in_order(form.chosen.get("workloads", ()), workloads)
    document["workloads"] = [workloads.get(d, {"name": traces.get(d, d), "trace": d}) for d in ticked]
    points = {p["name"]: p for p in document.get("loads", [])}
    ticked = _in_order(form.chosen.get("loads", ()), points)
    document["loads"] = [_load(n, form, points.get(n), known.get(n)) for n in ticked]


def _in_order(ticked: Iterable[str], entries: Iterable[str]) -> list[str]:
    """In the manifest's order, which is part of its identity, whatever the order of the boxes."""
    return list(dict.fromkeys([*(e for e in entries if e in set(ticked)), *ticked]))


def _load(name: str, form: FormState, entry: Document | None, known: TraceLoad | None) -> Document:
    """A load point as the manifest writes it; one that no stored trace has lacks its rate."""
    regime = form.value(f"regime:{name}") or "serving"
    if entry is not None:
        return entry | {"regime": regime}
    stated: Document = {"name": name, "regime": regime}
    if known is None or known.rate_rps is not None:
        return stated | {"rate_rps": None if known is None else known.rate_rps}
    return stated | {"kind": str(RateKind.CLOSED_LOOP), "clients": known.clients}


def _ordered(document: Document) -> Document:
    """In the order of the manifest's own fields."""
    return {name: document[name] for name in ("format", *Manifest.model_fields) if name in document}
