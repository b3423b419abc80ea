"""A verification record that has something of everything."""

from app.domain.verified import Alternative, ForcedChoice, VerificationMode, VerificationRecord, VerifiedAnswer

NEAR = (Alternative(token_id=5, logit=-0.5), Alternative(token_id=7, logit=-0.625))
RECORD = VerificationRecord(
    answers=(
        VerifiedAnswer(
            mode=VerificationMode.SINGLE,
            workload="tasks",
            request_id="tasks-low-0",
            repeat=0,
            token_ids=(1, 2, 3),
            text="nul\x00 \U0001f600",
            finish_reason="stop",
            alternatives=(NEAR,),
        ),
        VerifiedAnswer(
            mode=VerificationMode.SAMPLED, workload="tasks", request_id="tasks-low-1", repeat=2, seed=9, error="gone"
        ),
    ),
    choices=(ForcedChoice(workload="tasks", request_id="tasks-low-0", beginning=(1,), alternatives=NEAR),),
    raw_logits=True,
    left_out={"tasks-low-9": "its client cancels it"},
)
