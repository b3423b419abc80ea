"""Typed client of Verdraft, sync and async."""

from verdraft_client import models
from verdraft_client._core import Retries, VerdraftError
from verdraft_client.aio import AsyncClient
from verdraft_client.client import Client

__all__ = ["AsyncClient", "Client", "Retries", "VerdraftError", "models"]
