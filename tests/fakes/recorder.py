"""What a fake server was sent, kept in a file: a line of JSON for each POST, with the method of the arm that got it."""

import base64
import json
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.loopback import Answer, Call, Reply


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came in. ``arm`` is vLLM's name of the server's method."""

    arm: str
    path: str
    request_id: str
    body: bytes


def recording(answer: Answer, arm: str, record_to: str) -> Answer:
    """The same answers; what is posted is appended to the file first. Without a file nothing is kept."""
    if not record_to:
        return answer

    async def recorded(call: Call, reply: Reply) -> None:
        if call.method == "POST":
            line = [arm, call.path, call.headers.get("x-request-id", ""), base64.b64encode(call.body).decode()]
            with Path(record_to).open("a", encoding="utf-8") as file:  # noqa: ASYNC230  (a line)
                file.write(json.dumps(line) + "\n")
        await answer(call, reply)

    return recorded


def received(path: Path) -> list[Received]:
    """Everything that was recorded, in order."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Received(arm, route, who, base64.b64decode(body)) for arm, route, who, body in map(json.loads, lines)]
