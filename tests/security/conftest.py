"""The service that wants to know who asks, as the tests of access have it."""

from tests.access.conftest import guarded

__all__ = ["guarded"]
