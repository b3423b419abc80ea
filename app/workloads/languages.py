"""What the script of a text says about its language, and no more.

Letters tell Japanese, Korean, Greek, Hebrew, Thai and some others apart. They do not tell English from German: the
label is then the script (``latin``). Say the language yourself (``--label language=en``) where it matters. A
statistical detector was weighed and left out: good ones hold about 100 MB, and short prompts mislead them.
"""

from bisect import bisect_right
from collections import Counter

SAMPLE_CHARACTERS = 1_000
DOMINANT_SHARE = 0.6
KANA_SHARE = 0.05
LATIN = "latin"
_SCRIPTS = {
    LATIN: ((0x41, 0x5A), (0x61, 0x7A), (0xAA, 0xAA), (0xBA, 0xBA), (0xC0, 0x24F), (0x1E00, 0x1EFF)),
    "han": ((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3134F)),
    "kana": ((0x3041, 0x30FF), (0x31F0, 0x31FF), (0xFF66, 0xFF9F)),
    "ko": ((0x1100, 0x11FF), (0x3131, 0x318E), (0xAC00, 0xD7A3)),
    "cyrillic": ((0x400, 0x52F),),
    "arabic": ((0x620, 0x6FF), (0x750, 0x77F), (0xFB50, 0xFDFF), (0xFE70, 0xFEFF)),
    "devanagari": ((0x904, 0x97F),),
    "bengali": ((0x985, 0x9FF),),
    "el": ((0x370, 0x3FF), (0x1F00, 0x1FFF)),
    "he": ((0x5D0, 0x5F2),),
    "th": ((0xE01, 0xE4E),),
    "hy": ((0x531, 0x587),),
    "ka": ((0x10A0, 0x10FF),),
    "ta": ((0xB85, 0xBD7),),
    "te": ((0xC05, 0xC63),),
}
"""Script → its letters. A script that one language alone writes in practice has that language's code as its name."""
_RANGES = sorted((first, last, name) for name, ranges in _SCRIPTS.items() for first, last in ranges)
_FIRSTS = [first for first, _, _ in _RANGES]


def language_label(text: str) -> str:
    """A language code where the script settles it, else a script's name; ``mixed`` or ``none`` where neither does."""
    sample = text[:SAMPLE_CHARACTERS]
    if sample.isascii():
        return LATIN if sample.lower() != sample.upper() else "none"
    return _dominant(_letters(sample))


def _letters(sample: str) -> Counter[str]:
    """Script → letters of it in the sample."""
    counts: Counter[str] = Counter()
    for character, count in Counter(sample).items():
        if character.isalpha():
            counts[_script(character)] += count
    return counts


def _dominant(counts: Counter[str]) -> str:
    total = counts.total()
    if not total:
        return "none"
    if counts["kana"] >= KANA_SHARE * total and counts["kana"] + counts["han"] >= DOMINANT_SHARE * total:
        return "ja"
    name, count = counts.most_common(1)[0]
    return name if name and count >= DOMINANT_SHARE * total else "mixed"


def _script(character: str) -> str:
    """The script of a letter; the empty text for one that is in no script of ours."""
    point = ord(character)
    place = bisect_right(_FIRSTS, point) - 1
    return _RANGES[place][2] if place >= 0 and point <= _RANGES[place][1] else ""
