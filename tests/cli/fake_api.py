"""An API whose only experiment completes one block at each second look, with handmade reports."""

from dataclasses import dataclass, field

import httpx

from tests.factories_report import sample_report

IDENTITY = "e" * 64


@dataclass
class FakeApi:
    """``looks`` counts reads of the experiment; ``failing`` adds a failure from the first block on."""

    blocks: int
    failing: bool = False
    looks: int = field(default=0)

    @property
    def complete(self) -> int:
        return min(self.looks // 2, self.blocks)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/report"):
            report = sample_report(complete=self.complete, blocks=self.blocks, mismatches=3)
            return httpx.Response(200, content=report.model_dump_json())
        self.looks += 1
        return httpx.Response(200, json=self._experiment())

    def _experiment(self) -> dict[str, object]:
        done = self.complete == self.blocks
        failure = {"where": "block 1/ngram-k4", "failure_class": "OOM", "message": "[no] memory left"}
        current = {"block": self.complete, "arm": "ngram-k4", "workload": "edit", "load": "latency"}
        return {
            "id": IDENTITY,
            "name": "demo",
            "state": "FINISHED" if done else "RUNNING",
            "blocks_planned": self.blocks,
            "blocks_complete": self.complete,
            "runs_planned": 12 * self.blocks,
            "runs_done": 12 * self.complete,
            "current": None if done else current | {"session_state": "MEASURING"},
            "seconds_left": None if self.complete == 0 else 240.0,
            "failures": [failure] if self.failing and self.complete else [],
            "links": {"self": "/", "report": "/", "page": f"/experiments/{IDENTITY[:12]}"},
        }
