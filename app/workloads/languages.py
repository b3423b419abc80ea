"""What the script of a text says about its language, and no more.

Letters tell Japanese, Korean, Greek, Hebrew, Thai and some others apart. They do not tell English from German: the
label is then the script (``latin``). Say the language yourself (``--label language=en``) where it matters. A
statistical detector was weighed and left out: good ones hold about 100 MB, and short prompts mislead them.
"""

import re

SAMPLE_CHARACTERS = 4_000
DOMINANT_SHARE = 0.6
KANA_SHARE = 0.05
_LETTERS = re.compile(r"[^\W\d_]")
_SCRIPTS = {
    "latin": r"[A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff]",
    "han": r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f]",
    "kana": r"[\u3041-\u30ff\u31f0-\u31ff\uff66-\uff9f]",
    "ko": r"[\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]",
    "cyrillic": r"[\u0400-\u052f]",
    "arabic": r"[\u0620-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufeff]",
    "devanagari": r"[\u0904-\u097f]",
    "bengali": r"[\u0985-\u09ff]",
    "el": r"[\u0370-\u03ff\u1f00-\u1fff]",
    "he": r"[\u05d0-\u05f2]",
    "th": r"[\u0e01-\u0e4e]",
    "hy": r"[\u0531-\u0587]",
    "ka": r"[\u10a0-\u10ff]",
    "ta": r"[\u0b85-\u0bd7]",
    "te": r"[\u0c05-\u0c63]",
}
"""Script → its letters. A script that one language alone writes in practice has that language's code as its name."""
_PATTERNS = {name: re.compile(pattern) for name, pattern in _SCRIPTS.items()}


def language_label(text: str) -> str:
    """A language code where the script settles it, else a script's name; ``mixed`` or ``none`` where neither does."""
    sample = text[:SAMPLE_CHARACTERS]
    total = len(_LETTERS.findall(sample))
    if not total:
        return "none"
    counts = {name: len(pattern.findall(sample)) for name, pattern in _PATTERNS.items()}
    japanese = counts["kana"] + counts["han"]
    if counts["kana"] >= KANA_SHARE * total and japanese >= DOMINANT_SHARE * total:
        return "ja"
    name, count = max(counts.items(), key=lambda item: item[1])
    return name if count >= DOMINANT_SHARE * total else "mixed"
