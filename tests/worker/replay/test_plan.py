from dataclasses import replace

import httptools
import pytest

from worker.replay.plan import ReplayPlan, ReplayRequest, decode_plan, encode_plan, http_request

REQUEST = ReplayRequest("r-1", 5, '{"prompt":"é"}'.encode())
PLAN = ReplayPlan(
    "/s", None, None, "/v1/completions", (REQUEST, ReplayRequest("r-2", 9, b"\x00\xff", 70)), 100, (1,), 7
)


def test_a_plan_survives_the_way_to_the_client() -> None:
    assert decode_plan(encode_plan(PLAN)) == PLAN


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"requests": ()}, "requests"),
        ({"requests": (REQUEST, REQUEST)}, "request_id"),
        ({"requests": (replace(REQUEST, due_ns=-1),)}, "due_ns"),
        ({"socket_path": None}, "socket_path"),
        ({"socket_path": None, "host": "127.0.0.1"}, "socket_path"),
    ],
)
def test_an_impossible_plan_names_its_field(wrong: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        replace(PLAN, **wrong)


def test_the_request_is_what_a_server_parses() -> None:
    seen: dict[str, bytes] = {}

    class Protocol:
        def on_url(self, url: bytes) -> None:
            seen["url"] = url

        def on_header(self, name: bytes, value: bytes) -> None:
            seen[name.decode().lower()] = value

        def on_body(self, body: bytes) -> None:
            seen["body"] = body

    parser = httptools.HttpRequestParser(Protocol())
    parser.feed_data(http_request("/v1/completions", REQUEST.body, "r-1", "localhost"))
    assert parser.should_keep_alive()
    assert (seen["url"], seen["body"], seen["x-request-id"]) == (b"/v1/completions", REQUEST.body, b"r-1")


@pytest.mark.parametrize("forged", ["a\r\nHost: x", "", "é", "a\x00"])
def test_a_request_id_cannot_forge_a_header(forged: str) -> None:
    with pytest.raises(ValueError, match="request_id"):
        http_request("/", b"", forged, "localhost")
