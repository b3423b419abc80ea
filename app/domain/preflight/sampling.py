"""Would the engine answer a request with these sampling parameters while it speculates?"""

from app.domain.preflight.case import Case
from app.domain.preflight.outcome import Check, Topic

UNSUPPORTED = ("min_p", "logit_bias", "logits_processors", "trace_decode_token_ids")
"""``SamplingParams._validate_spec_decode`` and ``_validate_trace_replay`` answer 400 where speculation is on."""


def sampling_modes(case: Case, topic: Topic) -> Check:
    """Neither the manifest nor any request asks for what speculation does not support."""
    if case.manifest.sampling.min_p:
        reason = "the engine refuses min_p with speculation, so that the arms could not sample alike"
        return topic.at("sampling.min_p").fails(reason, "leave it out")
    for index, workload in enumerate(case.manifest.workloads):
        asked = [name for name in UNSUPPORTED if name in case.requested.get(workload.name, ())]
        if asked:
            reason = (
                f"requests of {workload.name} ask for {', '.join(asked)}, which the engine refuses with speculation"
            )
            return topic.at(f"workloads[{index}].trace").fails(reason, "use a trace without them")
    unread = [w.name for w in case.manifest.workloads if w.name not in case.requested]
    if unread:
        return topic.cannot_say(f"the requests of {', '.join(unread)} were not looked at here")
    return topic.passes("what is asked for works with speculation")
