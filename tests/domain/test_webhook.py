"""Which addresses may be told, how messages are signed, and when they are sent again."""

import pytest

from app.domain.webhook import RETRY_AFTER_S, WebhookRefused, checked_url, is_told, retry_after_s, signature

PRIVATE = (
    "127.0.0.1",
    "127.8.8.8",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.0.0.1",
    "255.255.255.255",
    "240.0.0.1",
    "::1",
    "::",
    "fe80::1",
    "fc00::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::5db8:d822",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::",
    "nonsense",
)
PUBLIC = ("93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34")


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_are_not_told(address: str) -> None:
    assert not is_told(address, loopback=False)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_ones_are(address: str) -> None:
    assert is_told(address, loopback=False)


def test_where_loopback_is_allowed_only_loopback_is_added() -> None:
    told = {address for address in PRIVATE if is_told(address, loopback=True)}
    assert told == {"127.0.0.1", "127.8.8.8", "::1"}


@pytest.mark.parametrize(
    "url",
    [
        "http://ci.example.org/x",
        "ftp://ci.example.org/x",
        "file:///etc/passwd",
        "gopher://ci.example.org",
        "javascript:alert(1)",
        "//ci.example.org",
        "https://",
        "https:///path",
        "",
        "nonsense",
        "https://localhost/x",
        "https://localhost./x",
        "https://box.local/x",
        "https://metadata.google.internal/x",
        "https://127.0.0.1/x",
        "https://[::1]/x",
        "https://169.254.169.254/latest",
        "https://0x7f000001/x",
        "https://2130706433/x",
        "https://127.1/x",
        "https://0177.0.0.1/x",
        "https://host:0/x",
        "https://ci.example.org:99999/x",
        "https://user:secret@ci.example.org/x",
        "https://ci.example.org/x#part",
        "https://ci.example.org/a b",
        "https://ci.example.org/\r\nHost: evil",
        "https://ci.ex\u00e4mple.org/x",
        "https://ci.example.org/" + "a" * 2000,
        "https://[::1",
    ],
)
def test_addresses_that_are_refused_by_their_form(url: str) -> None:
    with pytest.raises(WebhookRefused):
        checked_url(url, loopback=False)


@pytest.mark.parametrize(
    "url", ["https://ci.example.org/x?y=1", "https://93.184.216.34:8443/x", "HTTPS://CI.example.org"]
)
def test_addresses_that_pass(url: str) -> None:
    assert checked_url(url, loopback=False) == url


def test_plain_http_is_for_this_host_only_and_only_where_that_is_allowed() -> None:
    here = "http://127.0.0.1:9000/hook"
    assert checked_url(here, loopback=True) == here
    for url, loopback in ((here, False), ("http://ci.example.org/x", True), ("http://10.0.0.1/x", True)):
        with pytest.raises(WebhookRefused):
            checked_url(url, loopback=loopback)


def test_the_signature_is_an_hmac_over_time_and_body() -> None:
    # echo -n '1700000000.{"a":1}' | openssl dgst -sha256 -hmac vdw_secret
    assert signature("vdw_secret", 1_700_000_000, b'{"a":1}') == (
        "t=1700000000,v1=0e3ca8f2d87ccfcfd7a722363460fe76df80f46ed2c5aa8c7207099cdd1085d1"
    )


def test_it_is_tried_again_later_and_later_and_then_no_more() -> None:
    waits = [retry_after_s(attempts) for attempts in range(1, len(RETRY_AFTER_S) + 2)]
    assert waits == [*RETRY_AFTER_S, None]
    assert sorted(RETRY_AFTER_S) == list(RETRY_AFTER_S)
