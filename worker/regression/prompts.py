"""The prompts of the suite, from the demo's two workloads in the target's own tokens.

Some answers to them end by themselves; all repeat themselves enough that a lookup finds drafts, right and wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from tokenizers import Tokenizer

from app.domain.errors import DomainError
from worker.matrix.reconcile import prompts as demo_prompts

EDIT = "0-edit"
ENDING, OPEN = 6, 6
REPEATING = "one two three one two three one two"
"""What follows is mostly one word again and again, which even an untrained head drafts: it repeats the last token."""


@dataclass(frozen=True, slots=True)
class Prompts:
    """Token ids. Answers to ``ending`` mostly end by themselves; ``open_ended`` are cut off.

    Of ``repeating`` much is accepted, whatever drafts.
    """

    ending: tuple[tuple[int, ...], ...]
    open_ended: tuple[tuple[int, ...], ...]
    repeating: tuple[int, ...]

    def of_length(self, tokens: int) -> tuple[int, ...]:
        """A prompt of exactly so many tokens: the open ones, one after the other, round and round."""
        return tuple(islice(cycle(self._joined), tokens))

    def varied(self, number: int, tokens: int) -> tuple[int, ...]:
        """As ``of_length``, but beginning elsewhere for each number."""
        start = number * 17
        return tuple(islice(cycle(self._joined), start, start + tokens))

    @property
    def _joined(self) -> Sequence[int]:
        return [token for prompt in self.open_ended for token in prompt]


def read_prompts(target: Path) -> Prompts:
    """The prompts in the tokens of the model in ``target``. Raises ``DomainError`` where it has no fast tokenizer."""
    if not (target / "tokenizer.json").is_file():
        raise DomainError.of("target_model", f"{target} has no tokenizer.json", "use a model with a fast tokenizer")
    made = demo_prompts(target)
    edit = [r.prompt_token_ids for r in made if r.request_id.startswith(EDIT)]
    others = [r.prompt_token_ids for r in made if not r.request_id.startswith(EDIT)]
    repeating = Tokenizer.from_file(str(target / "tokenizer.json")).encode(REPEATING).ids
    return Prompts(tuple(edit[:ENDING]), tuple(others[:OPEN]), tuple(repeating))
