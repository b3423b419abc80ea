"""A bundle's evidence as an export: no service, no database, room on the disk for what it unpacks to."""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from app.bundle.archive import BundleUnreadable, unpack
from app.bundle.contents import ContentsUnreadable, open_contents
from app.domain.errors import EvidenceRefused
from app.domain.evidence import ExperimentEvidence
from app.interop.exports.encoder import encode
from app.interop.exports.formats import format_of
from app.interop.exports.outline import Outline, RunKey

REMEDY = "run `verdraft verify` on it, and take another copy"


@contextmanager
def bundle_evidence(bundle: Path) -> Generator[ExperimentEvidence]:
    """The evidence in a bundle whose digests agree; raises ``EvidenceRefused``."""
    with tempfile.TemporaryDirectory(prefix="verdraft-export-") as scratch:
        try:
            unpacked = unpack(bundle, Path(scratch))
            evidence = open_contents(Path(scratch)).evidence()
        except (BundleUnreadable, ContentsUnreadable, OSError, ValueError) as error:
            raise EvidenceRefused.of(bundle.name, f"it is no readable bundle: {error}", REMEDY) from error
        if unpacked.problems:
            path, problem = next(iter(unpacked.problems.items()))
            raise EvidenceRefused.of(bundle.name, f"{path}: {problem}", REMEDY)
        yield evidence


def export_bundle(bundle: Path, name: str, run: str | None) -> Iterator[bytes]:
    """An export of what is in a bundle, in pieces; raises ``EvidenceRefused`` or ``NotFound``."""
    chosen = format_of(name, one_run=run is not None)
    key = None if run is None else RunKey.parse(run)
    with bundle_evidence(bundle) as evidence:
        outline = Outline(evidence)
        outline.check(key)
        yield from encode(chosen.encoder(outline), outline.chosen(iter(evidence.runs), key))
