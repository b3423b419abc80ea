"""Counting tokens, where a tokenizer was named."""

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from app.domain.conversation import Message
from app.domain.errors import DomainError
from app.workloads.readers.conversations import text_of

TOKENIZER_FILE = "tokenizer.json"


class Tokens:
    """A tokenizer file: text → ids, no special tokens added."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._tokenizer = _load(path)
        self.vocabulary_size: int = self._tokenizer.get_vocab_size()

    def ids(self, text: str) -> list[int]:
        """The token ids of a text."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def count(self, text: str) -> int:
        """The length of a text in tokens, as it would be sent to the completions route."""
        return len(self.ids(text))

    def count_messages(self, messages: Sequence[Message]) -> int:
        """The length of the messages' texts; what the model's chat template adds is not counted."""
        return sum(self.count(text_of(message)) for message in messages)


def find_tokenizer(name: str, model_root: Path) -> Path:
    """The file for ``--tokenizer``: a ``tokenizer.json``, a directory with one, or a bundled model's alias.

    Nothing is downloaded. Raises ``DomainError``.
    """
    alias = name.removeprefix("local:").partition("@")[0]
    for place in (Path(name), Path(name) / TOKENIZER_FILE, model_root / alias / TOKENIZER_FILE):
        if place.is_file():
            return place
    raise DomainError.of(
        "tokenizer",
        f"there is no tokenizer file for {name[:80]!r}",
        f"give a {TOKENIZER_FILE}, a directory that has one, or a model's name under {model_root.name}/",
    )


def _load(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every kind of malformed file
        raise DomainError.of(
            "tokenizer", "the file is no tokenizer of the tokenizers library", "give another"
        ) from error
