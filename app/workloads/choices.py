"""The words that an import can be asked in."""

from enum import StrEnum


class OnBadRow(StrEnum):
    """What a bad row does to the import."""

    REFUSE = "refuse"
    SKIP = "skip"


class Spread(StrEnum):
    """How a load's requests are spread in time."""

    RECORDED = "recorded"
    """As the source says, stretched or shrunk to the load's rate: bursts stay bursts."""
    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"


class Turns(StrEnum):
    """Which turns of a conversation become requests, and whose earlier answers they contain."""

    FIRST = "first"
    """Only the first; the others are counted as left out."""
    RECORDED = "recorded"
    """All, each with the recorded answers before it, each due at its own time (open loop)."""
    OWN = "own"
    """All, each with the arm's own answers before it, due after the previous answer (closed inside the session)."""


class Join(StrEnum):
    """How rows without content get real text from a corpus."""

    WHOLE = "whole"
    """A whole prompt of about the same length."""
    BLOCKS = "blocks"
    """Running text cut to the length; rows that share hash ids share text."""
