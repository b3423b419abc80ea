"""What every arm is sent: the same bytes at the same offsets."""

from app.domain.launch import LaunchSpec, launch_spec
from app.domain.manifest import Manifest
from tests.factories import make_manifest, make_trace
from worker.requests import cache_salt, replay_plan


def server(manifest: Manifest, index: int) -> LaunchSpec:
    return launch_spec(
        manifest,
        manifest.arms[index],
        executable="/r/bin/vllm",
        target_path="/m/target",
        tokenizer_path="/m/target",
        draft_path=None,
        socket_path=f"/tmp/{index}/s",  # noqa: S108  (never opened)
        cache_root=f"/tmp/{index}/cache",  # noqa: S108
        engine_cores="0",
        tree_cores=(0,),
    )


def test_every_arm_is_sent_the_same_bytes_at_the_same_offsets() -> None:
    manifest, requests = make_manifest(), make_trace().of_load("low")
    salt = cache_salt(manifest.digest, 0, "tasks", "low")
    plans = [
        replay_plan(requests, manifest.sampling, salt=salt, server=server(manifest, index), cores=(1,))
        for index in range(len(manifest.arms))
    ]
    sent = [[(r.request_id, r.due_ns, r.body) for r in plan.requests] for plan in plans]
    assert len(sent[0]) == len(requests) > 0
    assert sent[0] == sent[1]
    assert plans[0].socket_path != plans[1].socket_path


def test_no_prefix_survives_from_one_load_or_block_to_the_next() -> None:
    salts = {
        cache_salt("e", block, workload, load)
        for block in (0, 1)
        for workload in ("a", "b")
        for load in ("low", "high", "warmup")
    }
    assert len(salts) == 12
