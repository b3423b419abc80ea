"""Which script a text is in, by the letters that it has, so that a change of language between scripts is seen.

Languages that share a script look alike here: that German became English is not seen.
"""

from collections.abc import Mapping
from typing import Final

from app.domain.scoring.patterns import compiled, encodable

LETTERS_MIN: Final = 20
"""Of fewer letters nothing is said: a name or a symbol is no language."""
DOMINANT: Final = 0.6
CJK: Final = "Han, Hiragana, Katakana"
_PATTERNS: Final[Mapping[str, str]] = {
    "Latin": r"\p{Latin}+",
    # Japanese mixes three scripts, and so do its shares of each.
    CJK: r"[\p{Han}\p{Hiragana}\p{Katakana}]+",
    **{
        name: rf"\p{{{name}}}+"
        for name in (
            "Cyrillic",
            "Arabic",
            "Greek",
            "Hebrew",
            "Hangul",
            "Devanagari",
            "Thai",
            "Bengali",
            "Tamil",
            "Telugu",
            "Gujarati",
            "Kannada",
            "Malayalam",
            "Gurmukhi",
            "Sinhala",
            "Khmer",
            "Lao",
            "Myanmar",
            "Georgian",
            "Armenian",
            "Ethiopic",
            "Tibetan",
        )
    },
}


def script_shares(text: str) -> dict[str, float]:
    """Script → its share of the letters that any known script has; empty of fewer than 20."""
    if text.isascii():
        return {"Latin": 1.0} if sum(map(str.isalpha, text)) >= LETTERS_MIN else {}
    plain = encodable(text)
    counts = {name: sum(map(len, compiled(pattern).findall(plain))) for name, pattern in _PATTERNS.items()}
    letters = sum(counts.values())
    return {name: count / letters for name, count in counts.items() if count} if letters >= LETTERS_MIN else {}


def dominant_script(text: str) -> str | None:
    """The script of most of a text's letters; ``None`` where there is none, or too few letters."""
    shares = script_shares(text)
    name = max(shares, key=lambda script: shares[script], default=None)
    return name if name is not None and shares[name] >= DOMINANT else None
