"""The checklist's items about what was set up: pins, start-up, workload and arrivals, strata, speculation lengths."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from app.domain.condition import Condition
from app.domain.evidence import RunEvidence
from app.domain.manifest import Arm, Manifest
from app.domain.output_length import DIMENSION
from app.domain.pairing import ALL, strata_of
from app.domain.references import NO_DRAFT
from app.domain.reproducibility_terms import DIGITS, Check, ChecklistItem, Facts, check, idle, item, named, of_controls
from app.domain.resolution import unlike_configurations
from app.domain.startup_gates import startup_problems, unchecked_canaries
from app.domain.vocabulary import RateKind

_LENGTHS_MIN = 2


def pins(facts: Facts) -> ChecklistItem:
    """Everything is pinned, and the servers had what was pinned."""
    manifest = facts.evidence.manifest
    return item("pins", "Everything is pinned", _models(manifest), _files(manifest), _stack(manifest), _devices(facts))


def startup(facts: Facts) -> ChecklistItem:
    """Each server started as its arm asks, and left what shows it."""
    return item(
        "startup",
        "Compatible, and start-up archived",
        _started(facts),
        _archived(facts),
        _as_asked(facts),
        _alike(facts),
    )


def same_workload(facts: Facts) -> ChecklistItem:
    """Every arm got the same bytes at the same times."""
    same = ("one observation per request", "same prompts")
    return item(
        "workload",
        "Same workload and arrivals in every arm",
        *_traces(facts),
        of_controls(facts, "same requests", same, "read which runs these are under the controls, and repeat them"),
        _arrivals(facts),
        of_controls(
            facts,
            "sent in time",
            ("client lateness",),
            "give the client more cores, or offer less load (docs/replay.md)",
        ),
    )


def strata(facts: Facts) -> ChecklistItem:
    """Every labelled kind of request was served by every arm at every load."""
    return item("strata", "Strata covered", *_strata(facts))


def swept(facts: Facts) -> ChecklistItem:
    """More than one speculation length of each proposer."""
    lengths: dict[str, list[str]] = defaultdict(list)
    for arm in facts.evidence.manifest.candidates:
        if arm.speculates:
            lengths[_proposer(arm)].append(_length(arm))
    checks = [_swept(proposer, sorted(set(found), key=lambda k: (len(k), k))) for proposer, found in lengths.items()]
    nothing = idle("speculation length", "no arm speculates: target-only is held against itself")
    return item("swept", "Speculation length swept", *(checks or [nothing]))


def _models(manifest: Manifest) -> Check:
    drafts = [a.draft_or_speculator for a in manifest.candidates if a.draft_or_speculator != NO_DRAFT]
    parts = [f"target {_brief(manifest.target_model)}"]
    if manifest.target_tokenizer != manifest.target_model:
        parts.append(f"tokenizer {_brief(manifest.target_tokenizer)}")
    parts += [f"draft {_brief(draft)}" for draft in dict.fromkeys(drafts)]
    evidence = f"{'; '.join(parts)}: each by its commit or by the digest of its content"
    return check("models", holds=True, evidence=evidence, remedy="")


def _files(manifest: Manifest) -> Check:
    """A pinned repository or directory holds the same files, so that their own hashes are a second lock."""
    if manifest.files is None:
        evidence = "no hash of their own is stated; they are files of the pinned target and tokenizer"
    else:
        stated = manifest.files.model_dump()
        evidence = "; ".join(f"{name.replace('_', ' ')} {value[:DIGITS]}" for name, value in stated.items())
    return check("tokenizer, chat template and generation config", holds=True, evidence=evidence, remedy="")


def _stack(manifest: Manifest) -> Check:
    hardware, software = manifest.hardware, manifest.software
    evidence = (
        f"{_brief(manifest.runtime)}; {hardware.count} x {hardware.accelerator}, {hardware.topology}; driver "
        f"{software.driver}, CUDA {software.cuda}, {software.os}, kernel {software.kernel}; "
        f"seed {manifest.schedule_seed}, margins and objectives in manifest {manifest.digest[:DIGITS]}"
    )
    return check("engine, host and order", holds=True, evidence=evidence, remedy="")


def _devices(facts: Facts) -> Check:
    manifest, what = facts.evidence.manifest, "the devices that were there"
    if manifest.software.cuda == "none":
        return idle(what, "no GPU is pinned, so that no driver names one")
    pinned = (manifest.hardware.accelerator, manifest.software.driver)
    silent = sum(not s.devices for s in facts.servers)
    other = sorted(
        {f"{d.model}, driver {d.driver}" for s in facts.servers for d in s.devices} - {", driver ".join(pinned)}
    )
    evidence = f"{len(facts.servers) - silent} of {len(facts.servers)} servers recorded their GPU by its driver"
    if other:
        evidence += f"; pinned is {pinned[0]}, driver {pinned[1]}, and they had {named(other)}"
    remedy = "measure on a worker whose driver can be asked, and on the pinned device"
    return check(what, facts.servers and not silent and not other, evidence, remedy)


def _started(facts: Facts) -> Check:
    ready = [s for s in facts.servers if s.startup_ns is not None]
    failed = list(dict.fromkeys(s.arm for s in facts.servers if s.startup_ns is None))
    evidence = f"{len(ready)} of {len(facts.servers)} servers of complete blocks answered their canary"
    evidence += f"; not those of {named(failed)}" if failed else ""
    remedy = "read the start-up logs of those servers, and choose what the runtime can serve"
    return check("every server started", facts.servers and not failed, evidence, remedy)


def _archived(facts: Facts) -> Check:
    servers = facts.servers
    kept = {
        "log by sha256": sum(s.log_sha256 is not None for s in servers),
        "command line": sum(bool(s.argv) for s in servers),
        "resolved configuration": sum(bool(s.resolved_config) for s in servers),
    }
    evidence = ", ".join(f"{what}: {n} of {len(servers)}" for what, n in kept.items())
    whole = servers and all(n == len(servers) for n in kept.values())
    return check("start-up archived", whole, evidence, "repeat the experiment with a worker that records all three")


def _as_asked(facts: Facts) -> Check:
    problems = dict.fromkeys(
        words
        for arm in facts.evidence.manifest.candidates
        for words in startup_problems(facts.evidence, facts.blocks, arm.name)
    )
    unseen = unchecked_canaries(facts.evidence, facts.blocks)
    parts = [f"{len(problems)} contradictions between what was asked and what started", *problems]
    if unseen:
        parts.append(f"{unseen} servers were recorded without a look at their counters after the canary")
    remedy = "read the start-up log at that line, and change the arm or the runtime"
    return check("started as asked", facts.servers and not problems and not unseen, _listed(parts), remedy)


def _alike(facts: Facts) -> Check:
    apart = dict.fromkeys(
        words
        for arm in facts.evidence.manifest.candidates
        for words in unlike_configurations(facts.evidence, facts.blocks, arm.name)
    )
    parts = [f"{len(apart)} settings resolved otherwise than in target-only, beside speculation", *apart]
    remedy = "state the setting in the manifest's serving, so that every arm gets it"
    return check("arms differ in speculation alone", facts.servers and not apart, _listed(parts), remedy)


def _traces(facts: Facts) -> Iterator[Check]:
    for workload in facts.evidence.manifest.workloads:
        real = facts.evidence.content_valid.get(workload.name, False)
        requests = len(facts.evidence.labels.get(workload.name, ()))
        evidence = f"trace {workload.trace[:DIGITS]}, {requests} measured requests, prompts of "
        evidence += "real text" if real else "no real text, on which acceptance means nothing"
        yield check(f"workload {workload.name}", real and requests, evidence, "join the trace with real prompts")


def _arrivals(facts: Facts) -> Check:
    """A later turn of a conversation waits for its answer, so that the arm moves it; a closed loop moves everything."""
    manifest, what = facts.evidence.manifest, "same arrivals"
    replayed = {load.name for load in manifest.loads if load.kind is RateKind.OPEN_LOOP}
    if not replayed:
        return idle(what, "closed loop: each client sends when its last request has ended, so that the arm sets them")
    together: dict[tuple[str, str], list[RunEvidence]] = defaultdict(list)
    for condition, runs in facts.blocks.runs.items():
        if condition.load in replayed:
            together[condition.workload, condition.load] += runs.values()
    offsets = [times for runs in together.values() for times in _offsets(runs).values()]
    same = sum(len(times) == 1 for times in offsets)
    evidence = f"{same} of {len(offsets)} requests were due at the same offset in every run of every arm"
    if len(replayed) < len(manifest.loads):
        evidence += "; the closed loops among the loads have arrivals of their own"
    remedy = "later turns of conversations wait for their answers: replay the requests one by one for equal arrivals"
    return check(what, offsets and same == len(offsets), evidence, remedy)


def _offsets(runs: Iterable[RunEvidence]) -> Mapping[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for run in runs:
        for observation in run.observations:
            found[observation.request_id].add(observation.due_ns)
    return found


def _strata(facts: Facts) -> Iterator[Check]:
    """Of each workload; how long answers were is labelled by the answers themselves and covers nothing."""
    manifest = facts.evidence.manifest
    for workload in manifest.workloads:
        labels = facts.evidence.labels.get(workload.name, ())
        declared = [s for s in strata_of(labels) if s != ALL and not s.startswith(f"{DIMENSION}=")]
        what, remedy = (
            f"workload {workload.name}",
            "label its requests with strata (docs/trace.md), or send more of each",
        )
        if not declared:
            yield check(what, holds=False, evidence="its requests carry no strata", remedy=remedy)
            continue
        served = {
            (r.stratum, Condition(r.arm, r.workload, r.load)): r.success
            for r in facts.results
            if r.workload == workload.name and r.stratum in declared
        }
        empty = [f"{stratum} ({c.arm}, {c.load})" for (stratum, c), n in served.items() if not n]
        dimensions = ", ".join(dict.fromkeys(s.partition("=")[0] for s in declared))
        least = min(served.values(), default=0)
        found = f"at least {least} served requests of each, by every arm at every load"
        found = f"nothing was served of {named(empty)}" if empty else found
        evidence = f"{len(declared)} strata by {dimensions}; {found}"
        yield check(what, served and not empty, evidence, remedy)


def _swept(proposer: str, lengths: list[str]) -> Check:
    evidence = f"k = {', '.join(lengths)}"
    remedy = "write several, such as num_speculative_tokens: [2, 4, 8]: each becomes an arm"
    return check(proposer, len(lengths) >= _LENGTHS_MIN, evidence, remedy)


def _proposer(arm: Arm) -> str:
    draft = arm.draft_or_speculator
    return str(arm.speculation.method) if draft == NO_DRAFT else f"{arm.speculation.method}, {draft.partition('@')[0]}"


def _length(arm: Arm) -> str:
    return "by batch size" if arm.speculation.num_speculative_tokens_per_batch_size else str(arm.k)


def _brief(reference: str) -> str:
    """A pin with the beginning of its digest: the whole of it is among the pins."""
    head, mark, tail = reference.rpartition("sha256:") if "sha256:" in reference else reference.rpartition("@")
    return f"{head}{mark}{tail[:DIGITS]}"


def _listed(parts: list[str]) -> str:
    first, *others = parts
    return f"{first}: {'; '.join(others[:2])}" if others else first
