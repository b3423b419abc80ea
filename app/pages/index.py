"""The list of experiments as its page shows it: the search in its address, and each row's verdicts by arm."""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode

from app.domain.vocabulary import VerdictWord
from app.experiments.listing.search import TAG_RULE, TAGS_MAX, Search
from app.experiments.schemas import ArmWord

PLACE: Final = frozenset({"cursor", "before"})
WORD_ORDER: Final = tuple(VerdictWord)


def address(search: Search, **changed: object) -> str:
    """The page's address with something changed: fixed order, defaults left out, from the first page on."""
    stated = search.model_dump(mode="json", exclude=set(PLACE)) | changed
    plain = Search().model_dump(mode="json")
    parts = {name: value for name, value in stated.items() if value not in (None, "", plain.get(name))}
    return f"/?{urlencode(parts)}" if parts else "/"


def by_arm(words: Sequence[ArmWord] | None) -> dict[str, list[ArmWord]]:
    """Each arm's verdicts, in one order of words for all."""
    arms: defaultdict[str, list[ArmWord]] = defaultdict(list)
    for word in sorted(words or (), key=lambda w: WORD_ORDER.index(w.word)):
        arms[word.arm].append(word)
    return {arm: arms[arm] for arm in dict.fromkeys(w.arm for w in words or ())}


def typed_tags(text: str) -> list[str]:
    """Tags as people type them, with commas or spaces between."""
    return [tag for tag in re.split(r"[\s,]+", text.strip()) if tag]


def tag_hint() -> str:
    """What may be typed."""
    return f"At most {TAGS_MAX}, with spaces between; each {TAG_RULE}."
