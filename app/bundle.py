"""The bundle: everything a reviewer needs to recompute a report, in one tar.zst with a hash of each member.

``index.json`` comes first and names every other member: manifest.json, traces/<digest>.jsonl,
evidence.json and report.json. Verification trusts nothing but the bytes.
"""

import io
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.domain.canonical import canonical_json, digest
from app.domain.errors import DomainError
from app.domain.evidence import ExperimentEvidence, labels_of
from app.domain.manifest import Manifest
from app.domain.report import ANALYSIS_VERSION, Report, build_report
from app.domain.trace import Trace, parse_trace
from app.domain.vocabulary import Sha256

BUNDLE_FORMAT = "verdraft/bundle/v0"
INDEX, MANIFEST, EVIDENCE, REPORT = "index.json", "manifest.json", "evidence.json", "report.json"
UNPACKED_MAX = 2 << 30


class Member(BaseModel):
    """One file of the bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(pattern=r"^(?:(?:manifest|evidence|report)\.json|traces/[0-9a-f]{64}\.jsonl)$")]
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0)]


class BundleIndex(BaseModel):
    """The first member of a bundle."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["verdraft/bundle/v0"] = BUNDLE_FORMAT
    experiment: Sha256
    analysis_version: str
    members: tuple[Member, ...]


def pack(evidence: ExperimentEvidence, traces: Mapping[str, Trace], report: Report) -> bytes:
    """The bundle's bytes; the same evidence always gives the same bytes. ``traces`` maps digest → trace."""
    members = {
        MANIFEST: evidence.manifest.canonical(),
        **{f"traces/{key}.jsonl": trace.encode() for key, trace in sorted(traces.items())},
        EVIDENCE: canonical_model(evidence),
        REPORT: canonical_model(report),
    }
    index = index_of(members, evidence.manifest.digest, report.analysis_version)
    return archive({INDEX: index, **members})


def index_of(members: Mapping[str, bytes], experiment: str, analysis_version: str) -> bytes:
    """The index of these members."""
    listed = tuple(
        Member(path=path, sha256=digest(content), bytes=len(content))
        for path, content in members.items()
        if path != INDEX
    )
    return canonical_model(BundleIndex(experiment=experiment, analysis_version=analysis_version, members=listed))


def archive(members: Mapping[str, bytes]) -> bytes:
    """A tar.zst of the members in order, without times or owners."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, content in members.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return zstandard.compress(packed.getvalue(), 10)


def verify(path: Path) -> list[str]:
    """Every reason to distrust the bundle at ``path``; an empty list means that all digests and the report agree."""
    try:
        with path.open("rb") as file:
            members = unpack(file)
        return list(_problems(members))
    except (OSError, tarfile.TarError, zstandard.ZstdError, EOFError) as error:
        return [f"{path}: not a readable bundle: {error}"]
    except (ValidationError, DomainError, ValueError, KeyError) as error:
        return [f"{path}: a member cannot be read: {' '.join(str(error).split())}"]


def unpack(file: BinaryIO) -> dict[str, bytes]:
    """The regular files of a bundle by path, in memory; nothing is written. At most 2 GiB unpacked."""
    members: dict[str, bytes] = {}
    left = UNPACKED_MAX
    with zstandard.ZstdDecompressor().stream_reader(file) as plain, tarfile.open(fileobj=plain, mode="r|") as tar:
        for entry in tar:
            left -= entry.size
            content = tar.extractfile(entry) if entry.isreg() and left >= 0 else None
            if content is None or entry.name in members:
                raise tarfile.TarError(f"{entry.name!r} is not a plain file of its own, or the bundle is too large")
            members[entry.name] = content.read()
    return members


def canonical_model(model: BaseModel) -> bytes:
    """A value as canonical JSON."""
    return canonical_json(model.model_dump(mode="json"))


def _problems(members: Mapping[str, bytes]) -> Iterator[str]:
    if INDEX not in members:
        yield f"{INDEX} is missing"
        return
    index = BundleIndex.model_validate_json(members[INDEX])
    damaged = [*_damage(index, members)]
    yield from damaged
    if damaged:
        return
    manifest = Manifest.model_validate_json(members[MANIFEST])
    evidence = ExperimentEvidence.model_validate_json(members[EVIDENCE])
    if manifest.digest != index.experiment or evidence.manifest != manifest:
        yield f"{MANIFEST}: its digest is {manifest.digest}, the bundle is of {index.experiment}"
    yield from _trace_problems(manifest, evidence, members)
    yield from _report_problems(index, evidence, members[REPORT])


def _damage(index: BundleIndex, members: Mapping[str, bytes]) -> Iterator[str]:
    stated = {m.path: m for m in index.members}
    for path in sorted({MANIFEST, EVIDENCE, REPORT} - stated.keys()):
        yield f"{path}: the index does not name it"
    for path in sorted(members.keys() - stated.keys() - {INDEX}):
        yield f"{path}: not in the index"
    for path, member in stated.items():
        if path not in members:
            yield f"{path}: missing"
        elif digest(members[path]) != member.sha256:
            yield f"{path}: sha256 is {digest(members[path])}, the index says {member.sha256}"


def _trace_problems(manifest: Manifest, evidence: ExperimentEvidence, members: Mapping[str, bytes]) -> Iterator[str]:
    for workload in manifest.workloads:
        path = f"traces/{workload.trace}.jsonl"
        if path not in members:
            yield f"{path}: the trace of workload {workload.name} is missing"
            continue
        trace = parse_trace(members[path])
        if trace.digest != workload.trace:
            yield f"{path}: the trace's digest is {trace.digest}"
        if evidence.labels.get(workload.name) != labels_of(trace):
            yield f"{EVIDENCE}: the labels of workload {workload.name} are not those of its trace"


def _report_problems(index: BundleIndex, evidence: ExperimentEvidence, stored: bytes) -> Iterator[str]:
    if index.analysis_version != ANALYSIS_VERSION:
        yield f"{REPORT}: made by analysis {index.analysis_version}; this one is {ANALYSIS_VERSION}"
    elif canonical_model(build_report(evidence)) != stored:
        yield f"{REPORT}: recomputing it from the evidence gives another report"
