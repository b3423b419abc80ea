"""How an arm's answers go wrong, and what the target's logits say of it: known truth for greedy equality."""

import random
from dataclasses import dataclass
from typing import Any

TOP_LOGIT, REST_LOGIT = 20.0, 5.0
RANKS = 20


@dataclass(frozen=True, slots=True)
class Wrong:
    """Where, when and how far off one method's answers are."""

    at: int = 2
    """The token that is exchanged for the next id; what follows it stays. -1: none is."""
    when: str = "always"
    """``always``, ``crowd`` (others are running), or ``coin`` (each time anew)."""
    gap: float = 5.0
    """How far the target's logits have the wrong token below the right one."""
    share: float = 1.0
    """Of the prompts."""
    drops_last: bool = False
    finish_reason: str = ""

    def concerns(self, prompt: str) -> bool:
        return random.Random(f"wrong/{prompt}").random() < self.share

    def happens(self, running: int, coin: random.Random) -> bool:
        if self.when == "crowd":
            return running > 1
        return self.when != "coin" or coin.random() < 0.5


def read_wrongs(document: dict[str, dict[str, Any]]) -> dict[str, Wrong]:
    """By method; unknown keys raise ``TypeError``."""
    return {method: Wrong(**fields) for method, fields in document.items()}


def alternatives(token: int, vocabulary: int, gap: float) -> dict[str, float]:
    """The right token, the wrong one ``gap`` below it, and others far below."""
    logits = {token: TOP_LOGIT, (token + 1) % vocabulary: TOP_LOGIT - gap}
    logits |= {(token + rank) % vocabulary: REST_LOGIT - rank for rank in range(2, RANKS)}
    return {f"token_id:{token_id}": logit for token_id, logit in logits.items()}
