"""Passwords by Argon2id, with the parameters that its library recommends (RFC 9106, low memory)."""

from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

_HASHER: Final = PasswordHasher()
_NOBODY: Final = _HASHER.hash("nobody has this password")
"""Verified against where there is no such account, so that an answer takes as long."""


def hash_of(password: str) -> str:
    """What is stored."""
    return _HASHER.hash(password.encode("utf-8", "surrogatepass"))


def matches(password: str, stored: str | None) -> bool:
    """Whether it is the password; without an account it takes as long and is not."""
    try:
        right = _HASHER.verify(stored or _NOBODY, password.encode("utf-8", "surrogatepass"))
    except (VerificationError, InvalidHashError):
        return False
    return right and stored is not None
