"""From what the user asked for to the parts of an import."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DomainError
from app.domain.vocabulary import NAME_PATTERN
from app.workloads.choices import Join
from app.workloads.corpus import open_corpus
from app.workloads.drafting import Choices, Drafter
from app.workloads.filling import VOCABULARY_DEFAULT, Filling, LengthsOnly, Placeholders
from app.workloads.joining import Blocks, Whole
from app.workloads.readers.format import Format
from app.workloads.readers.mooncake import BLOCK_TOKENS
from app.workloads.readers.mooncake import FORMAT as MOONCAKE
from app.workloads.readers.registry import format_named
from app.workloads.readers.sniffing import Sniffed, sniff
from app.workloads.tokens import Tokens


@dataclass(frozen=True, slots=True)
class Content:
    """Where content comes from for rows that have none."""

    corpus: Path | None = None
    corpus_format: str | None = None
    join: Join | None = None
    """None: blocks for a Mooncake trace, else whole prompts."""
    reuse: bool = False
    block_tokens: int = BLOCK_TOKENS


def find_format(path: Path, name: str | None) -> Sniffed:
    """The named format, or what the file itself says."""
    return sniff(path) if name is None else Sniffed(format_named(name), "it was named with --format")


def make_drafter(
    source_format: Format, choices: Choices, content: Content, tokenizer: Path | None, *, dry_run: bool
) -> Drafter:
    """The drafter for a source. Raises ``DomainError``."""
    tokens = None if tokenizer is None else Tokens(tokenizer)
    return Drafter(choices, _filling(source_format, content, tokens, dry_run=dry_run), tokens)


def parse_labels(pairs: Iterable[str]) -> dict[str, str]:
    """``language=en`` and the like. Raises ``DomainError``."""
    labels: dict[str, str] = {}
    for pair in pairs:
        dimension, _, label = pair.partition("=")
        if not (re.fullmatch(NAME_PATTERN, dimension) and re.fullmatch(NAME_PATTERN, label)):
            raise DomainError.of("label", f"{pair[:60]!r} is no label", "write dimension=label in lower case")
        labels[dimension] = label
    return labels


def trace_name(path: Path, wanted: str | None) -> str:
    """The wanted name, or one from the file's."""
    if wanted is not None and not re.fullmatch(NAME_PATTERN, wanted):
        raise DomainError.of(
            "name", f"{wanted[:60]!r} is no name", "lower case letters, digits, and . _ - after the first"
        )
    made = re.sub(r"[^a-z0-9._-]+", "-", path.name.split(".")[0].lower()).strip("-._")[:63]
    return wanted or made or "workload"


def describe_content(filling: Filling) -> tuple[str, ...]:
    """Sentences for the trace's header: how its content differs from what was recorded."""
    if isinstance(filling, Placeholders):
        return (
            "The source has no content: the prompts are meaningless token ids, so acceptance on them means nothing.",
        )
    if isinstance(filling, Whole):
        again = f"{filling.reused} of them a second time" if filling.reused else "none of them twice"
        return (
            f"Times and answer lengths are the source's; prompts of about the same length are from a corpus, {again}.",
        )
    if isinstance(filling, Blocks):
        again = f"{filling.reused} tokens of it a second time" if filling.reused else "none of it twice"
        return (
            f"Times and lengths are the source's; the text is a corpus' text cut to length, {again}.",
            "Rows that shared a prefix in the source share text; what is asked has no meaning of its own.",
        )
    return ()


def _filling(source_format: Format, content: Content, tokens: Tokens | None, *, dry_run: bool) -> Filling:
    if content.corpus is None:
        size = tokens.vocabulary_size if tokens else VOCABULARY_DEFAULT
        return LengthsOnly() if dry_run else Placeholders(content.block_tokens, size)
    if tokens is None:
        raise DomainError.of("tokenizer", "a join by length needs to count tokens", "name one with --tokenizer")
    corpus = open_corpus(content.corpus, find_format(content.corpus, content.corpus_format).format, tokens)
    join = content.join or (Join.BLOCKS if source_format is MOONCAKE else Join.WHOLE)
    if join is Join.BLOCKS:
        return Blocks(corpus, tokens, content.block_tokens, reuse=content.reuse)
    return Whole(corpus, reuse=content.reuse)
