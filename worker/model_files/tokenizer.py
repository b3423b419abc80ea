"""A model's tokenizer as the engine would build it: its vocabulary token by token, and its special tokens.

The library that engines use reads it; what ``tokenizer_config.json`` adds is added in the same order.
"""

import re
from collections.abc import Iterator

from tokenizers import AddedToken, Tokenizer

from app.domain.canonical import canonical_json, digest
from worker.model_files.tree import ModelRefused, Tree, is_clean, is_count, is_object

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIG = "tokenizer_config.json"
SPECIAL_TOKENS_MAP = "special_tokens_map.json"
ADDED_TOKENS = "added_tokens.json"
TOKENIZER_FILES = (
    TOKENIZER,
    TOKENIZER_CONFIG,
    SPECIAL_TOKENS_MAP,
    ADDED_TOKENS,
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
    "tiktoken.model",
)
"""All that a tokenizer may be made of; the chat template has a digest of its own."""
TOKENIZER_BYTES_MAX = 128 * 1024**2
TOKEN_LENGTH_MAX = 1024
SPECIAL_TOKENS_MAX = 4096
SPECIAL_LISTS = ("additional_special_tokens", "extra_special_tokens")

_ID = re.compile(r"[0-9]{1,18}")

Vocabulary = tuple[tuple[int, str], ...]
"""Every (id, token), by id."""


def vocabulary(tree: Tree) -> Vocabulary:
    """Every token with its id, added ones included. Raises ``ModelRefused`` without a readable ``tokenizer.json``."""
    text = tree.text(TOKENIZER, limit=TOKENIZER_BYTES_MAX)
    added = list(_added_tokens(tree))
    special = [AddedToken(token, special=True) for tokens in _special(tree).values() for token in tokens]
    try:
        tokenizer = Tokenizer.from_str(text)
        tokenizer.add_tokens([*added, *special])
        numbers = tokenizer.get_vocab(with_added_tokens=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic inside the library is no Exception
        message = f"is not a tokenizer that the library reads: {str(error)[:200]}"
        raise ModelRefused.of(TOKENIZER, message, "restore the file") from error
    return tuple(sorted((number, token) for token, number in numbers.items()))


def vocabulary_digest(tokens: Vocabulary) -> str:
    """The sha256 over every (id, token)."""
    return digest(canonical_json([[number, token] for number, token in tokens]))


def special_tokens(tree: Tree) -> dict[str, str]:
    """Role (``eos_token``) → token; a role with several tokens holds them sorted, as a JSON list.

    Raises ``ModelRefused`` for a file that cannot be read or a token that cannot be stored.
    """
    return {
        role: canonical_json([*sorted(tokens)]).decode() if role in SPECIAL_LISTS else tokens[0]
        for role, tokens in sorted(_special(tree).items())
    }


def _special(tree: Tree) -> dict[str, list[str]]:
    """As transformers decides: the map of an older tokenizer counts only where the newer form is absent."""
    settings = tree.json_or_empty(TOKENIZER_CONFIG)
    if "added_tokens_decoder" not in settings:
        settings = {**settings, **tree.json_or_empty(SPECIAL_TOKENS_MAP)}
    named = settings.get("extra_special_tokens")
    if is_object(named):
        settings = {**settings, **named, "extra_special_tokens": None}
    roles = [role for role in settings if role in SPECIAL_LISTS or role.endswith("_token")]
    found = {_checked(role): tokens for role in roles if (tokens := list(_contents(settings[role])))}
    if sum(map(len, found.values())) > SPECIAL_TOKENS_MAX:
        message = f"names more than {SPECIAL_TOKENS_MAX:,} special tokens"
        raise ModelRefused.of(TOKENIZER_CONFIG, message, "check where it comes from")
    return found


def _contents(value: object) -> Iterator[str]:
    """The token or tokens, each written as a text or as an object with its ``content``."""
    for item in value if isinstance(value, list) else [value]:
        content: object = item.get("content") if is_object(item) else item
        if isinstance(content, str) and content:
            yield _checked(content)


def _added_tokens(tree: Tree) -> Iterator[AddedToken]:
    """What is added to ``tokenizer.json``, by id; an older tokenizer has it in a file of its own."""
    settings = tree.json_or_empty(TOKENIZER_CONFIG)
    if "added_tokens_decoder" in settings:
        yield from _described_tokens(settings["added_tokens_decoder"])
        return
    numbers = tree.json_or_empty(ADDED_TOKENS)
    if not all(is_count(number) for number in numbers.values()):
        raise ModelRefused.of(ADDED_TOKENS, "has added tokens without an id", "restore the file")
    for token in sorted(numbers, key=lambda token: numbers[token]):
        yield AddedToken(_checked(token))


def _described_tokens(decoder: object) -> Iterator[AddedToken]:
    described = decoder if is_object(decoder) else {}
    if not all(_ID.fullmatch(number) and is_object(token) for number, token in described.items()):
        raise ModelRefused.of(TOKENIZER_CONFIG, "has added tokens without an id", "restore the file")
    for number in sorted(described, key=int):
        content: object = described[number].get("content")
        if not isinstance(content, str):
            raise ModelRefused.of(TOKENIZER_CONFIG, f"has no text for the added token {number}", "restore the file")
        yield AddedToken(_checked(content), special=described[number].get("special") is True)


def _checked(token: str) -> str:
    if len(token) > TOKEN_LENGTH_MAX or not is_clean(token):
        raise ModelRefused.of(TOKENIZER_CONFIG, f"has the token {token[:40]!a}, which cannot be stored", "restore it")
    return token
