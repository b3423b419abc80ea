"""JSON Lines: an object for each offered request; its ``observation`` is the recorded value, exactly."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from app.domain.canonical import canonical_json
from app.domain.evidence import RunEvidence
from app.domain.observation import RequestObservation
from app.interop.exports.outline import Outline
from app.interop.exports.rows import exact, place_of

FORMAT: Final = "verdraft/request/v0"
LINES_AT_ONCE: Final = 500


class JsonlEncoder:
    """Every line stands alone."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline

    def begin(self) -> bytes:
        return b""

    def add(self, run: RunEvidence) -> Iterator[bytes]:
        place = {"format": FORMAT, **place_of(self._outline, run)._asdict()}
        strata = self._outline.strata(run.workload)
        head = canonical_json(place)[:-1]
        lines = (_line(head, canonical_json({**strata.get(o.request_id, {})}), o) for o in map(exact, run.observations))
        while some := list(islice(lines, LINES_AT_ONCE)):
            yield b"".join(some)

    def end(self) -> bytes:
        return b""


def _line(head: bytes, strata: bytes, observation: RequestObservation) -> bytes:
    """The three parts as one object; the observation is encoded once, by its own model."""
    return b'%s,"strata":%s,"observation":%s}\n' % (head, strata, observation.model_dump_json().encode())
