"""An older bundle under the analysis of now: its evidence is looked at first, and goes over byte for byte.

Only the report and the index are new. That the old report followed from the evidence, only the version of then can say.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

from app.bundle.archive import BundleUnreadable, pack, unpack
from app.bundle.index import REPORT
from app.bundle.verifying import look_at_evidence
from app.bundle.writing import write_index
from app.domain.canonical import canonical_model
from app.domain.errors import DomainError
from app.domain.report import ANALYSIS_VERSION, build_report


class Reanalysed(NamedTuple):
    """The old bundle and the new one; with ``problems`` nothing was written."""

    problems: tuple[str, ...]
    root: str | None = None
    analysis_version: str = ""
    new_root: str | None = None


def reanalyse(archive: Path, output: Path) -> Reanalysed:
    """Write the same evidence with a report of this version; ``output`` may not be there yet."""
    if output.exists():
        return Reanalysed((f"{output}: it is there already",))
    with tempfile.TemporaryDirectory(prefix="verdraft-reanalyse-") as scratch:
        directory = Path(scratch)
        try:
            unpacked = unpack(archive, directory)
        except (BundleUnreadable, OSError) as error:
            return Reanalysed((f"{archive}: {error}",))
        index = unpacked.index
        if index.analysis_version == ANALYSIS_VERSION:
            made = f"{REPORT}: made by analysis {ANALYSIS_VERSION}, as this is: verify it"
            return Reanalysed((made,), unpacked.root, index.analysis_version)
        contents, problems = look_at_evidence(directory, unpacked)
        if contents is None or problems:
            return Reanalysed(tuple(problems), unpacked.root, index.analysis_version)
        try:
            report = canonical_model(build_report(contents.evidence()))
        except DomainError as error:
            refused = f"{REPORT}: the evidence allows no report: {error}"
            return Reanalysed((refused,), unpacked.root, index.analysis_version)
        write_index(directory, index.experiment, report, ANALYSIS_VERSION, index.runs)
        return Reanalysed((), unpacked.root, index.analysis_version, pack(directory, output))
