"""Sends one message to one address, to a public one only: what the name resolves to is what is connected to."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from typing import Final

import httpx

from app.domain.webhook import is_told

TIMEOUT_S: Final = 10.0
WHOLE_S: Final = 15.0
"""For the whole attempt: a server that sends a byte now and then must not hold it."""
ERROR_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of an attempt: a status, or why there is none."""

    status: int | None
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Only 2xx: redirects are not followed, since they may lead anywhere."""
        return self.status is not None and httpx.codes.is_success(self.status)


class NotPublic(Exception):
    """The name resolves to an address that is not told anything."""


async def send(url: str, body: bytes, headers: dict[str, str], *, loopback: bool) -> Sent:
    """POST it once. The answer's body is not read."""
    try:
        async with asyncio.timeout(WHOLE_S):
            return await _send(httpx.URL(url), body, headers, loopback=loopback)
    except TimeoutError:
        return Sent(None, f"no answer within {WHOLE_S:.0f} s")
    except (NotPublic, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return Sent(None, f"{type(error).__name__}: {error}"[:ERROR_MAX])


async def _send(url: httpx.URL, body: bytes, headers: dict[str, str], *, loopback: bool) -> Sent:
    address = await _address_of(url, loopback=loopback)
    # The name is resolved once: asking again while connecting might give another, private address.
    there = url.copy_with(host=address)
    addressed = {**headers, "Host": url.netloc.decode("ascii")}
    async with (
        httpx.AsyncClient(
            verify=ssl.create_default_context(), trust_env=False, follow_redirects=False, timeout=TIMEOUT_S
        ) as client,
        client.stream("POST", there, content=body, headers=addressed, extensions={"sni_hostname": url.host}) as answer,
    ):
        if httpx.codes.is_success(answer.status_code):
            return Sent(answer.status_code)
        return Sent(answer.status_code, f"HTTP {answer.status_code}")


async def _address_of(url: httpx.URL, *, loopback: bool) -> str:
    """One that may be told; a name of which any address may not is refused whole."""
    port = url.port or (443 if url.scheme == "https" else 80)
    found = await asyncio.get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]).partition("%")[0] for info in found))
    private = [address for address in addresses if not is_told(address, loopback=loopback)]
    if private or not addresses:
        raise NotPublic(f"{url.host} is not a public address")
    return addresses[0]
