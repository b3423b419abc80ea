"""The whole story on the real vLLM of this processor: the one proof that no fake can give."""

import pytest
from tokenizers import Tokenizer

from app.db.session import Database
from app.demo.workloads import build_traces, demo_loads
from app.domain.lifecycle import RunState, SessionState
from app.domain.report import build_report
from app.domain.trace import Trace, TraceLoad
from app.domain.vocabulary import WARMUP, Outcome
from app.settings import Settings
from tests.factories import BASELINE
from tests.worker.conduct import Place

pytestmark = pytest.mark.real_engine

NGRAM = {
    "name": "ngram-k4",
    "speculation": {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 2, "prompt_lookup_max": 5},
}
SERVING = {
    # In bfloat16 two logits can tie, and which one wins depends on how many requests share the step; this test asks
    # whether speculation changes a token, not whether rounding does.
    "dtype": "float32",
    "max_model_len": 1024,
    "max_num_seqs": 16,
    "prefix_caching": False,
    "enforce_eager": True,
    "kv_cache_space_gib": 1,
}
REQUESTS = 12


def small(trace: Trace) -> Trace:
    """The first requests of the demo's first load, and its warm-up."""
    load = trace.header.loads[0]
    chosen = trace.of_load(load.name)[:REQUESTS]
    part = TraceLoad(name="low", rate_rps=load.rate_rps, requests=len(chosen), duration_ns=load.duration_ns)
    return Trace(
        header=trace.header.model_copy(update={"loads": (part,)}),
        requests=(*trace.of_load(WARMUP), *(r.model_copy(update={"load": "low"}) for r in chosen)),
    )


async def test_speculation_reconciles_and_changes_no_token(settings: Settings, database: Database) -> None:
    real = Settings()
    own = settings.model_copy(update={"runtime_root": real.runtime_root, "model_root": real.model_root})
    here = Place(own, database, own.runtime_root, own.model_root, runtime="cpu", target="tiny-target")
    tokenizer = Tokenizer.from_file(str(own.model_root / "tiny-target" / "tokenizer.json"))
    trace = small(build_traces(tokenizer, demo_loads(2.0, 4.0))[0])
    manifest = await here.submit(
        trace=trace,
        arms=[BASELINE, NGRAM],
        serving=SERVING,
        loads=[{"name": "low", "regime": "latency", "rate_rps": 2.0}],
    )
    await here.conduct()

    evidence = await here.evidence(manifest)
    assert [(s.state, s.failure) for s in evidence.sessions] == [(SessionState.SUCCEEDED, None)] * 2
    assert [r.state for r in evidence.runs] == [RunState.SUCCEEDED] * 2
    assert {o.outcome for r in evidence.runs for o in r.observations} == {Outcome.SUCCESS}
    ngram = next(r for r in evidence.runs if r.arm == "ngram-k4")
    assert ngram.counters is not None
    counted = [o.speculation for o in ngram.observations if o.speculation]
    assert sum(c.num_draft_tokens for c in counted) == ngram.counters.spec_decode_num_draft_tokens
    assert sum(c.num_accepted_draft_tokens for c in counted) == ngram.counters.spec_decode_num_accepted_tokens
    assert sum(c.num_accepted_draft_tokens for c in counted) > 0
    assert sum(c.num_spec_steps for c in counted) == ngram.counters.spec_decode_num_drafts
    at_position = [sum(n > j for c in counted for n in c.per_step_accepted) for j in range(4)]
    assert tuple(at_position) == ngram.counters.spec_decode_num_accepted_tokens_per_pos
    report = build_report(evidence)
    assert all(r.residual == 0 for r in report.reconciliations)
    assert [c.mismatched for c in report.correctness] == [0]
    assert evidence.diagnoses == ()
    for session in evidence.sessions:
        assert session.verification is not None
        assert len(session.verification.answers) >= REQUESTS
        assert not [answer.error for answer in session.verification.answers if answer.error]
    assert not any(report.config_differences.values())
