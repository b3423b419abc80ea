"""Privacy mode: the trace holds keyed hashes, and what was asked is in one separate file that only the worker reads.

The hash is HMAC-SHA256 with a key of the project over the request's private part as canonical JSON. Who has the trace
but not the key cannot test a guessed prompt against it; equal requests still have equal hashes.
"""

import hmac
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

from pydantic import ValidationError

from app.domain.canonical import canonical_json
from app.domain.errors import DomainError
from app.domain.trace_request import TraceRequest
from app.workloads.readers.documents import decode_object
from app.workloads.record import Row, RowRefused

KEYED_HASH = "keyed_hash"
PRIVATE = (
    "prompt", "messages", "prompt_token_ids", "prompt_text", "reference", "stop", "tools", "tool_choice",
    "structured_outputs", "chat_template_kwargs", "tests",
)  # fmt: skip
"""The fields of a request that may tell what was asked or answered; lengths, times, labels and sampling stay."""
KEY_BYTES_MIN = 32
KEY_ID_DIGITS = 16


class ProjectKey:
    """The project's secret. Its ``key_id`` says which key was used, and does not tell it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < KEY_BYTES_MIN:
            message = f"it has {len(secret)} bytes, fewer than {KEY_BYTES_MIN}"
            raise DomainError.of("privacy key", message, "make one: openssl rand -hex 32 > project.key")
        self._secret = secret
        self.key_id = sha256(b"verdraft key id\0" + secret).hexdigest()[:KEY_ID_DIGITS]

    def sign(self, private: Row) -> str:
        """The keyed hash of a request's private part, 64 hex digits."""
        return hmac.new(self._secret, canonical_json(private), sha256).hexdigest()


def read_key(path: Path) -> ProjectKey:
    """The key in a file, white space around it left off."""
    return ProjectKey(path.read_bytes().strip())


def split(request: Row, key: ProjectKey, input_tokens: int | None) -> tuple[Row, Row]:
    """A request as (what the trace holds, what the prompt file holds); both carry the keyed hash."""
    private: Row = {name: request[name] for name in PRIVATE if name in request}
    signature = key.sign(private)
    public: Row = {name: value for name, value in request.items() if name not in PRIVATE}
    length: Row = {} if input_tokens is None else {"input_tokens": input_tokens}
    return public | length | {"prompt_hash": signature}, private | {"prompt_hash": signature}


def read_prompts(lines: Iterable[bytes], key: ProjectKey) -> Iterator[tuple[str, Row]]:
    """(keyed hash, private part) of each line of a prompt file. Raises ``DomainError`` where the two do not fit."""
    for number, line in enumerate(lines, 1):
        try:
            private = decode_object(line)
        except RowRefused as refusal:
            raise _unfit(number, refusal.reason) from refusal
        signature = private.pop("prompt_hash", None)
        if not isinstance(signature, str) or not hmac.compare_digest(key.sign(private), signature):
            raise _unfit(number, "the prompt does not fit its keyed hash")
        yield signature, private


def reveal(request: TraceRequest, private: Row) -> TraceRequest:
    """The request as it is sent: the trace's part and the private part together. Raises ``DomainError``."""
    public: Row = request.model_dump(mode="json", exclude_defaults=True)
    public.pop("prompt_hash", None)
    if "prompt_token_ids" in private:
        public.pop("input_tokens", None)
    try:
        return TraceRequest.model_validate(public | private)
    except ValidationError as error:
        raise DomainError.of(
            "prompt file", f"request {request.request_id} cannot be restored", "import again"
        ) from error


def _unfit(number: int, message: str) -> DomainError:
    return DomainError.of(f"prompt file, line {number}", message, "give the file and the key that the import used")
