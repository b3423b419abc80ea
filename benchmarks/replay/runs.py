"""One client, one rate, once: what the referee saw, what the client said, what it cost. Kept as lines of JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.replay import running
from benchmarks.replay.judging import Figures, judge
from benchmarks.replay.offer import LoadGenerator, Offer, Reported
from benchmarks.replay.referee import ROOT, Referee, referee

TOKENIZER = ROOT / "models" / "tiny-target"
REFEREE_CORE, CLIENT_CORE = 0, 1
START_PATIENCE_S = 120
_TAIL_CHARS = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """What every client is asked for in one turn."""

    rate_rps: float
    repeat: int
    seconds: float
    tokens: int

    @property
    def requests(self) -> int:
        return max(2, round(self.rate_rps * self.seconds))


@dataclass(frozen=True, slots=True)
class Run:
    """``figures`` are missing where the client did not do what it was asked to; ``problem`` says what it did."""

    client: str
    rate_rps: float
    repeat: int
    requests: int
    figures: Figures | None
    problem: str | None
    cpu_s: float = 0.0
    spun_s: float = 0.0
    peak_pss_bytes: int = 0
    wall_s: float = 0.0

    @property
    def cpu_s_per_1000(self) -> float:
        """Of its whole command, without what it says it spent waiting for exact moments."""
        return (self.cpu_s - self.spun_s) / self.requests * 1000


def measure(client: LoadGenerator, asked: Asked) -> Run:
    """Against a fresh referee on the other core."""
    requests = asked.requests
    with referee(REFEREE_CORE) as judged, TemporaryDirectory(prefix="bench-") as directory:
        offer = Offer(asked.rate_rps, requests, asked.tokens, judged.port, "null", TOKENIZER, Path(directory))
        client.prepare(offer)
        patience_s = START_PATIENCE_S + 2 * asked.seconds
        try:
            usage = running.run(client.argv(offer), client.environment(), offer.directory, CLIENT_CORE, patience_s)
        except FileNotFoundError as error:  # a host without the Python that a client wants goes without it
            return Run(client.name, asked.rate_rps, asked.repeat, requests, None, f"not installed: {error}")
        reported, problem = _reported(client, offer, usage.returncode)
        figures, problem = _judged(judged, reported, asked, problem)
    return Run(
        client.name, asked.rate_rps, asked.repeat, requests, figures, problem,
        usage.cpu_s, reported.spun_s if reported else 0.0, usage.peak_pss_bytes, usage.wall_s,
    )  # fmt: skip


def _judged(
    judged: Referee, reported: Reported | None, asked: Asked, problem: str | None
) -> tuple[Figures | None, str | None]:
    try:
        return judge(judged.log()[-asked.requests :], reported, rate_rps=asked.rate_rps, tokens=asked.tokens), problem
    except (ValueError, LookupError) as error:
        return None, problem or str(error)


def _reported(client: LoadGenerator, offer: Offer, returncode: int) -> tuple[Reported | None, str | None]:
    """What it says of itself, or why it says nothing."""
    try:
        reported = client.reported(offer)
    except (OSError, ValueError) as error:
        said = (offer.directory / running.OUTPUT_NAME).read_text(errors="replace")[-_TAIL_CHARS:]
        return None, f"ended with {returncode} and without a report ({error}): …{said}"
    return reported, None if returncode == 0 else f"ended with {returncode}"


def append(path: Path, run: Run) -> None:
    with path.open("a") as file:
        file.write(json.dumps(asdict(run)) + "\n")


def read(path: Path) -> Iterator[Run]:
    """What ``append`` wrote."""
    for line in path.read_text().splitlines():
        facts: dict[str, Any] = json.loads(line)
        figures = facts.pop("figures")
        yield Run(figures=None if figures is None else Figures(**figures), **facts)
