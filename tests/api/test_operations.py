"""What operators read, and the one thing they change: through the API and as Prometheus' text, on a real database."""

import json
import logging
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from app.db.session import Database
from app.domain.evidence import Failure
from app.domain.lifecycle import BlockState
from app.domain.retry import ATTEMPTS_MAX
from app.domain.vocabulary import FailureClass
from app.main import create_app
from app.operations.metrics import OTHER_OWNERS, OWNERS_MAX, exposition
from app.operations.schemas import OperationsRead, OwnerRead
from app.settings import Settings
from tests.conftest import client_of
from tests.factories import make_trace, manifest_document
from tests.factories_operations import DISK_FULL, GPU, Floor, busy_floor

OPERATIONS = "/api/v1/operations"
EXPERIMENTS = "/api/v1/experiments"
ASIDE = "/api/v1/accelerators/gpu1/GPU-cccc"
JSONL = {"content-type": "application/jsonl"}
WHY = {"reason": "it was looked at"}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
async def floor(database: Database) -> Floor:
    return await busy_floor(database)


@pytest.fixture
async def now(floor: Floor, client: httpx.AsyncClient) -> dict[str, Any]:
    """The busy floor as the API tells it."""
    answer = await client.get(OPERATIONS)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_owner_and_a_priority_come_with_the_manifest_and_stay(client: httpx.AsyncClient) -> None:
    await client.post("/api/v1/traces", content=make_trace().encode(), headers=JSONL)
    first = await client.post(EXPERIMENTS, params={"owner": "ann", "priority": -3}, json=manifest_document())
    again = await client.post(EXPERIMENTS, params={"owner": "bob", "priority": 9}, json=manifest_document())
    assert [(e.json()["owner"], e.json()["priority"]) for e in (first, again)] == [("ann", -3)] * 2
    plain = await client.post(EXPERIMENTS, json=manifest_document(schedule_seed=2))
    assert (plain.json()["owner"], plain.json()["priority"]) == ("local", 0)


@pytest.mark.parametrize("query", [{"owner": "Ann Bee"}, {"owner": ""}, {"priority": 11}, {"priority": "high"}])
async def test_an_owner_is_a_name_and_a_priority_has_bounds(client: httpx.AsyncClient, query: dict[str, str]) -> None:
    refused = await client.post(EXPERIMENTS, params=query, json=manifest_document())
    assert refused.status_code == 422
    (problem,) = refused.json()["problems"]
    assert problem["field"] == f"query.{next(iter(query))}"


async def test_queues_tell_what_waits_and_what_runs_by_kind(now: dict[str, Any]) -> None:
    gpu = next(q for q in now["queues"] if q["accelerator"] == GPU)
    # Seven blocks: one has succeeded, two are leased, four wait, and of these one for its time.
    assert (gpu["queued"], gpu["leased"], gpu["delayed"]) == (4, 2, 1)
    assert 0 <= gpu["oldest_wait_s"] < 60
    processors = next(q for q in now["queues"] if q["accelerator"] != GPU)
    assert (processors["queued"], processors["leased"]) == (2, 0)


async def test_leases_tell_their_block_their_worker_and_their_time(now: dict[str, Any]) -> None:
    first, second = now["leases"]
    assert (first["experiment_name"], first["owner"], first["worker"]) == ("fusion-draft", "ann", "gpu1:4711")
    assert (first["attempt"], first["attempts_max"]) == (1, ATTEMPTS_MAX)
    assert 50 < first["expires_in_s"] <= 60
    assert second["expires_in_s"] < -60
    assert {*first["accelerators"], *second["accelerators"]} == {"gpu1/GPU-aaaa", "gpu1/GPU-bbbb"}


async def test_accelerators_tell_their_state_and_hosts_whether_they_are_silent(now: dict[str, Any]) -> None:
    told = {f"{a['host']}/{a['name']}": (a["state"], a["stale"]) for a in now["accelerators"]}
    assert told == {
        "gpu1/GPU-aaaa": ("LEASED", False),
        "gpu1/GPU-bbbb": ("LEASED", False),
        "gpu1/GPU-cccc": ("QUARANTINED", False),
        "gpu2/GPU-dddd": ("FREE", True),
        "mill/cpu-0": ("FREE", False),
    }
    assert {h["host"]: h["stale"] for h in now["hosts"]} == {"gpu1": False, "gpu2": True, "mill": False}
    assert next(h for h in now["hosts"] if h["host"] == "mill")["idle_because"] == DISK_FULL


async def test_a_host_at_work_is_not_silent_though_it_says_nothing(floor: Floor, client: httpx.AsyncClient) -> None:
    await floor.silence("gpu1", 3600)
    told = (await client.get(OPERATIONS)).json()
    assert {a["name"]: a["stale"] for a in told["accelerators"] if a["host"] == "gpu1"} == {
        "GPU-aaaa": False,
        "GPU-bbbb": False,
        "GPU-cccc": True,
    }
    assert {h["host"]: h["stale"] for h in told["hosts"]}["gpu1"] is False


async def test_failures_are_counted_by_level_and_class_and_the_newest_are_linked(
    now: dict[str, Any], client: httpx.AsyncClient
) -> None:
    counted = {(f["level"], f["failure_class"]): (f["last_day"], f["in_all"]) for f in now["failures"]}
    assert counted == {("session", "OOM"): (1, 1), ("run", "OOM"): (1, 1)}
    assert [f["level"] for f in now["newest_failures"]] == ["session", "run"]
    for failed in now["newest_failures"]:
        assert (await client.get(failed["page"])).status_code == 200, failed
    assert now["retries"] == {"last_day": 1, "in_all": 1}


async def test_a_failure_of_yesterday_counts_in_all_only(floor: Floor, client: httpx.AsyncClient) -> None:
    await floor.run("UPDATE run SET finished_at = now() - interval '25 hours' WHERE failure IS NOT NULL")
    counted = {f["level"]: (f["last_day"], f["in_all"]) for f in (await client.get(OPERATIONS)).json()["failures"]}
    assert counted == {"session": (1, 1), "run": (0, 1)}


async def test_a_stop_on_request_is_counted_but_is_no_news(floor: Floor, client: httpx.AsyncClient) -> None:
    block = await floor.claim("mill:1", "AMD EPYC 9654", ("cpu-0",))
    stopped = Failure(failure_class=FailureClass.CANCELED, message="canceled on request")
    await floor.finish(block, BlockState.CANCELED, stopped)
    told = (await client.get(OPERATIONS)).json()
    assert ("block", "CANCELED") in {(f["level"], f["failure_class"]) for f in told["failures"]}
    assert "CANCELED" not in {f["failure_class"] for f in told["newest_failures"]}


async def test_owners_are_told_with_what_they_used(floor: Floor, client: httpx.AsyncClient) -> None:
    await floor.run(
        "UPDATE block SET started_at = now() - interval '1 hour', finished_at = now() - interval '30 minutes'"
        " WHERE state = 'SUCCEEDED'"
    )
    owners = {o["owner"]: o for o in (await client.get(OPERATIONS)).json()["owners"]}
    assert 1800 <= owners["ann"]["accelerator_s"] < 1860
    assert owners["bob"]["accelerator_s"] < 60
    assert (owners["local"]["queued"], owners["local"]["leased"]) == (2, 0)


async def test_sizes_and_states(now: dict[str, Any]) -> None:
    assert now["database_bytes"] > 1_000_000
    assert sum(now["experiments"].values()) == 3
    assert now["experiments"]["FAILED"] == 0


async def test_what_needs_a_person_is_said_with_a_remedy(now: dict[str, Any]) -> None:
    told = [a["what"] for a in now["attention"]]
    assert [next(t for t in told if word in t) for word in ("expired", "AMD EPYC", "gpu2", "mill", "quarantine")]
    assert len(told) == 5
    assert all(a["remedy"] for a in now["attention"])


async def test_a_quiet_service_needs_nobody(client: httpx.AsyncClient) -> None:
    told = (await client.get(OPERATIONS)).json()
    assert (told["attention"], told["queues"], told["failures"]) == ([], [], [])
    assert told["retries"] == {"last_day": 0, "in_all": 0}


async def test_an_accelerator_is_taken_out_of_use_and_put_back(floor: Floor, client: httpx.AsyncClient) -> None:
    out = await client.post("/api/v1/accelerators/gpu2/GPU-dddd/quarantine", json={"reason": " it hums "})
    assert (out.status_code, out.json()["state"], out.json()["reason"]) == (200, "QUARANTINED", "it hums")
    back = await client.post("/api/v1/accelerators/gpu2/GPU-dddd/release", json=WHY)
    assert (back.status_code, back.json()["state"], back.json()["reason"]) == (200, "FREE", None)
    listed = (await client.get("/api/v1/accelerators")).json()
    assert {a["name"]: a["state"] for a in listed}["GPU-dddd"] == "FREE"


async def test_a_leased_accelerator_may_be_quarantined_and_its_block_goes_on(
    floor: Floor, client: httpx.AsyncClient
) -> None:
    out = await client.post("/api/v1/accelerators/gpu1/GPU-aaaa/quarantine", json=WHY)
    assert out.json()["state"] == "QUARANTINED"
    assert len((await client.get(OPERATIONS)).json()["leases"]) == 2


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (f"{ASIDE}/quarantine", 409, "in quarantine already: memory did not return"),
        ("/api/v1/accelerators/gpu1/GPU-aaaa/release", 409, "is LEASED, not in quarantine"),
        ("/api/v1/accelerators/gpu1/GPU-zzzz/release", 404, "no worker has published gpu1/GPU-zzzz"),
        ("/api/v1/accelerators/gpu9/GPU-aaaa/quarantine", 404, "no worker has published gpu9/GPU-aaaa"),
    ],
)
async def test_what_cannot_be_changed_is_refused_in_words(
    floor: Floor, client: httpx.AsyncClient, path: str, status: int, message: str
) -> None:
    refused = await client.post(path, json=WHY)
    assert refused.status_code == status
    assert message in refused.json()["detail"]


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "  "}, {"reason": "x" * 501}, {"reason": "x", "y": 1}])
async def test_a_reason_must_be_given(floor: Floor, client: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await client.post(f"{ASIDE}/release", json=body)).status_code == 422
    assert (await client.get("/api/v1/accelerators")).json()[2]["state"] == "QUARANTINED"


async def test_prometheus_reads_the_same_numbers(now: dict[str, Any], client: httpx.AsyncClient) -> None:
    seen = samples(await client.get("/metrics"))
    assert seen["verdraft_blocks_queued", (("accelerator", GPU),)] == 4
    assert seen["verdraft_blocks_delayed", (("accelerator", GPU),)] == 1
    assert seen["verdraft_leases_expired", ()] == 1
    states = (("accelerator", GPU), ("host", "gpu1"))
    assert seen["verdraft_accelerators", (*states, ("state", "LEASED"))] == 2
    assert seen["verdraft_accelerators", (*states, ("state", "FREE"))] == 0
    assert seen["verdraft_accelerators_stale", (("accelerator", GPU), ("host", "gpu2"))] == 1
    assert seen["verdraft_host_idle", (("host", "mill"),)] == 1
    assert seen["verdraft_host_silent_seconds", (("host", "gpu2"),)] > 590
    assert seen["verdraft_failures_total", (("failure_class", "OOM"), ("level", "run"))] == 1
    assert seen["verdraft_attempts_retried_total", ()] == 1
    assert seen["verdraft_experiments", (("state", "RUNNING"),)] == 1
    assert seen["verdraft_database_size_bytes", ()] > 1_000_000
    assert seen["verdraft_database_up", ()] == 1


async def test_every_metric_is_ours_has_help_and_says_its_unit(floor: Floor, client: httpx.AsyncClient) -> None:
    families = list(text_string_to_metric_families((await client.get("/metrics")).text))
    assert len(families) > 20
    assert [f.name for f in families if not f.name.startswith("verdraft_") or not f.documentation] == []
    assert len({f.name for f in families}) == len(families)


async def test_requests_are_counted_by_the_template_of_their_route(floor: Floor, client: httpx.AsyncClient) -> None:
    for path in (f"{EXPERIMENTS}/{'0' * 64}", f"{EXPERIMENTS}/{'1' * 64}", "/api/v1/nowhere", "/static/app.css"):
        await client.get(path, params={"words": "hunter2"})
    await client.request("BREW", "/")
    seen = samples(await client.get("/metrics"))

    def requests(method: str, route: str, status_class: str) -> float:
        labels = (("method", method), ("route", route), ("status_class", status_class))
        return seen["verdraft_http_requests_total", labels]

    assert requests("GET", "/api/v1/experiments/{experiment_id}", "4xx") == 2
    assert requests("GET", "(none)", "4xx") == 1
    assert requests("GET", "/static", "2xx") == 1
    assert requests("OTHER", "/", "4xx") == 1
    timed = (("method", "GET"), ("route", "/api/v1/experiments/{experiment_id}"))
    assert seen["verdraft_http_request_duration_seconds_count", timed] == 2


async def test_a_refusal_at_the_edge_is_counted_too(client: httpx.AsyncClient) -> None:
    assert (await client.get("/", headers={"host": "evil.example"})).status_code == 403
    labels = (("method", "GET"), ("route", "(none)"), ("status_class", "4xx"))
    assert samples(await client.get("/metrics"))["verdraft_http_requests_total", labels] == 1


async def test_without_a_database_the_process_still_tells_of_itself(settings: Settings) -> None:
    away = settings.model_copy(update={"database_url": SecretStr("postgresql+psycopg://nobody@127.0.0.1:1/none")})
    async with client_of(create_app(away), away) as client:
        answer = await client.get("/metrics")
    seen = samples(answer)
    assert answer.status_code == 200
    assert seen["verdraft_database_up", ()] == 0
    assert ("verdraft_database_size_bytes", ()) not in seen


async def test_owners_beyond_the_largest_few_are_one_series(now: dict[str, Any]) -> None:
    owners = [OwnerRead(owner=f"o{n}", accelerator_s=100 - n, queued=0, leased=0) for n in range(OWNERS_MAX + 5)]
    many = OperationsRead.model_validate(now).model_copy(update={"owners": owners})
    seen = parsed(exposition(CollectorRegistry(), many, 0).decode())
    told = [labels for name, labels in seen if name == "verdraft_owner_accelerator_seconds"]
    assert len(told) == OWNERS_MAX + 1
    assert seen["verdraft_owner_accelerator_seconds", (("owner", OTHER_OWNERS),)] == sum(range(76, 81))


async def test_each_request_is_one_line_without_its_query(
    settings: Settings, database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    async with client_of(create_app(settings), settings) as client:
        answer = await client.get("/experiments/aaaaaaaaaaaa", params={"form_token": "hunter2"})
        await client.get("/static/app.css")
    written = capsys.readouterr().err
    lines = [json.loads(line) for line in written.splitlines() if '"request"' in line]
    (line,) = [line for line in lines if line["event"] == "request"]
    assert (line["method"], line["route"], line["status"]) == ("GET", "/experiments/{prefix}", 404)
    assert line["request_id"] == answer.headers["x-request-id"]
    assert line["duration_ms"] > 0
    assert line["level"] == "info"
    assert "hunter2" not in written
    assert logging.getLogger("uvicorn.access").disabled


def samples(answer: httpx.Response) -> Samples:
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return parsed(answer.text)


def parsed(text: str) -> Samples:
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}
