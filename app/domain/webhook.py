"""Webhooks: which addresses may be told, how a message is signed, and when one is sent again. Pure rules."""

import hmac
from enum import StrEnum
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from app.domain.errors import DomainError, FieldProblem
from app.domain.lifecycle import ExperimentState

URL_MAX: Final = 2000
RETRY_AFTER_S: Final = (5, 30, 120, 600, 3600, 21600)
"""After the first attempt and each next one; then a delivery has failed."""
FAILED_MAX: Final = 3
"""So many deliveries in a row that failed for good, and the webhook is disabled."""
_NAT64_PREFIX: Final = int(IPv6Address("64:ff9b::")) >> 32
"""RFC 6052: it carries an IPv4 address, which a translator may take to a private network."""


class WebhookRefused(DomainError):
    """The address may not be told anything."""

    title = "The webhook was refused"


class Event(StrEnum):
    """What is told."""

    FINISHED = "experiment.finished"
    """There is a verdict."""
    FAILED = "experiment.failed"
    CANCELED = "experiment.canceled"
    PING = "ping"
    """Somebody asked for it, to see whether it arrives."""


EVENT_OF: Final = {
    ExperimentState.FINISHED: Event.FINISHED,
    ExperimentState.FAILED: Event.FAILED,
    ExperimentState.CANCELED: Event.CANCELED,
}


class DeliveryState(StrEnum):
    """What became of a message. Both ends are final."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    FAILED = "FAILED"


def checked_url(url: str, *, loopback: bool) -> str:
    """The address, if its form allows it to be told; who it resolves to is looked at again at each delivery.

    ``loopback`` also lets plain http to this host pass. Raises ``WebhookRefused``.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _refused(f"it is no address: {error}", "send https://host/path") from error
    host = (parts.hostname or "").lower().rstrip(".")
    if not host or len(url) > URL_MAX or not url.isascii() or any(c <= " " or c == "\x7f" for c in url):
        raise _refused("it is no address", f"send https://host/path in at most {URL_MAX} ASCII characters")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _refused("it holds a user, a password or a fragment", "the signature tells who sends; leave them out")
    here = loopback and _is_here(host)
    if parts.scheme != "https" and not (here and parts.scheme == "http"):
        raise _refused(f"{parts.scheme or 'nothing'} is not https", "send an https address")
    if port == 0 or not (here or _may_be_public(host)):
        raise _refused("it is not a public address", "send one that is reachable from other networks")
    return url


def is_told(address: str, *, loopback: bool) -> bool:
    """Whether a resolved address may be connected to: public ones only, or this host where that is allowed."""
    found = _address(address)
    return found is not None and ((loopback and found.is_loopback) or _is_public(found))


def signature(secret: str, timestamp_s: int, body: bytes) -> str:
    """The header ``Verdraft-Signature``: HMAC-SHA256 over the time, a dot and the exact body."""
    found = hmac.new(secret.encode(), f"{timestamp_s}.".encode() + body, sha256).hexdigest()
    return f"t={timestamp_s},v1={found}"


def retry_after_s(attempts: int) -> int | None:
    """Seconds until the next attempt after so many; ``None`` where there is none."""
    return RETRY_AFTER_S[attempts - 1] if attempts <= len(RETRY_AFTER_S) else None


def _is_here(host: str) -> bool:
    found = _address(host)
    return host == "localhost" if found is None else found.is_loopback


def _may_be_public(host: str) -> bool:
    """Of a name it is not known before it is resolved, except that some can never be; no other notation of numbers."""
    found = _address(host)
    if found is not None:
        return _is_public(found)
    last = host.rpartition(".")[2]
    return "." in host and last not in {"localhost", "local", "internal"} and last[:1].isalpha()


def _is_public(found: IPv4Address | IPv6Address) -> bool:
    """Also of the IPv4 address that is hidden in one of IPv6."""
    if isinstance(found, IPv6Address):
        inner = (found.ipv4_mapped, found.sixtofour, *(found.teredo or ()))
        if any(address is not None and not _is_public(address) for address in inner):
            return False
        if int(found) >> 32 == _NAT64_PREFIX:
            return False
        if found.ipv4_mapped is not None:
            return True
    return found.is_global and not found.is_multicast and not found.is_reserved


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _refused(message: str, remedy: str) -> WebhookRefused:
    return WebhookRefused(FieldProblem("url", message, remedy))
