"""Scores by comparison with a right answer: equal, equal but for typing, or sharing much of its text."""

import re
import unicodedata
from collections import Counter
from typing import Final

from rapidfuzz.distance import Indel

from app.domain.scoring.question import Question
from app.domain.scoring.terms import Overlap, Quality

_APOSTROPHES: Final = frozenset("'\u2019\u02bc")
_WORD: Final = re.compile(
    # Scripts that are written without spaces are taken sign by sign.
    r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\U00020000-\U0003ffff]"
    r"|[^\W\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\U00020000-\U0003ffff]+"
)


def exact(text: str, question: Question, _: Quality) -> float:
    """1 where the text is the reference, white space around it apart."""
    return float(text.strip() == (question.reference or "").strip())


def normalised(text: str, question: Question, _: Quality) -> float:
    """1 where the text is the reference but for case, white space, punctuation and the way that signs are encoded."""
    return float(plain(text) == plain(question.reference or ""))


def overlap(text: str, question: Question, quality: Quality) -> float:
    """F1 of shared words (default), or of their longest common subsequence (ROUGE-L)."""
    ours, theirs = words(text), words(question.reference or "")
    if not ours or not theirs:
        return float(ours == theirs)
    if quality.measure is Overlap.ROUGE_L:
        return Indel.normalized_similarity(ours, theirs)  # 2 LCS / (m + n): what ROUGE-L's F1 is
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


def plain(text: str) -> str:
    """NFKC, case folded, punctuation as white space, which is one space each time.

    What tells numbers apart stays: a sign before a digit, and a mark between two digits.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    padded = f" {folded} "
    return " ".join("".join(map(_plain_sign, padded, padded[1:], padded[2:])).split())


def words(text: str) -> list[str]:
    """The words of a text, case folded; signs of scripts without spaces each for itself."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def _plain_sign(before: str, sign: str, after: str) -> str:
    if sign in _APOSTROPHES and before.isalpha() and after.isalpha():
        return ""
    if not unicodedata.category(sign).startswith("P"):
        return sign
    tells = after.isdigit() and (before.isdigit() or (unicodedata.category(sign) == "Pd" and not before.isalnum()))
    return sign if tells else " "
