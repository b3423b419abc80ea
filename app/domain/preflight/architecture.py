"""Does the engine have the classes that the target and the drafts need, and would it use a draft as it was meant?"""

from app.domain.capability import ModelFacts
from app.domain.preflight.case import ArmCase, Case, called, missing_draft
from app.domain.preflight.methods import architectures_of, dedicated_method, inferred_method
from app.domain.preflight.outcome import Check, Topic
from app.domain.preflight.runtime import no_runtime
from app.domain.proposer import METHODS_WITH_DRAFT, METHODS_WITH_MODEL
from app.domain.vocabulary import Method


def target_known(case: Case, topic: Topic) -> Check:
    """The target's files are on the host and were read."""
    if case.target is None:
        return topic.cannot_say(f"{case.manifest.target_model} is not among the models of this host")
    size = (
        f"{case.target.parameters:,} parameters" if case.target.parameters else f"{case.target.weights_bytes:,} bytes"
    )
    return topic.passes(f"{called(case.target)}: {size}, {case.target.model_type or 'no model_type'}")


def target_architecture(case: Case, topic: Topic) -> Check:
    """The engine registers the target's class."""
    runtime, target = case.runtime, case.target
    if runtime is None or not runtime.architectures:
        return no_runtime(topic)
    if target is None or not target.architectures:
        return topic.cannot_say("the target's files name no architecture")
    return _registered(topic, target.architectures, runtime.architectures, derived=False)


def target_format(case: Case, topic: Topic) -> Check:
    """The target is a plain model: a speculators repository would switch speculation on in every arm."""
    if case.target is None:
        return topic.cannot_say("the target's files were not read")
    if case.target.is_speculators_format:
        reason = "a speculators repository: the engine would serve another model and turn speculation on in every arm"
        return topic.refuses(reason, "pin the verifier that the repository names as target_model")
    return topic.passes("a plain model")


def target_remote_code(case: Case, topic: Topic) -> Check:
    """Nothing of the target's repository would be executed."""
    if case.target is None:
        return topic.cannot_say("the target's files were not read")
    return _remote_code(topic, case.target, () if case.runtime is None else case.runtime.architectures)


def draft_needed(arm: ArmCase, topic: Topic) -> Check:
    """A draft is named exactly where the method takes one, and its files were read."""
    method = arm.arm.speculation.method
    if arm.has_draft and method not in METHODS_WITH_MODEL:
        return topic.fails(f"method {method} takes no draft", "write none")
    if not arm.has_draft and method in METHODS_WITH_DRAFT:
        return topic.fails(f"method {method} needs a draft", "name one")
    if not arm.has_draft:
        return topic.passes(f"method {method} drafts without a model of its own")
    draft = arm.draft
    return missing_draft(arm, topic) or topic.passes(f"{called(draft)}: {draft.weights_bytes:,} bytes" if draft else "")


def draft_architecture(arm: ArmCase, topic: Topic) -> Check | None:
    """The engine registers the class under which it would look the draft up."""
    runtime, draft = arm.case.runtime, arm.draft
    if not arm.has_draft or draft is None:
        return missing_draft(arm, topic)
    if runtime is None or not runtime.architectures:
        return no_runtime(topic)
    if draft.is_speculators_format:
        return topic.cannot_say("a speculators repository: the engine derives the class from it at start-up")
    method = arm.arm.speculation.method
    wanted = architectures_of(method, draft)
    if not wanted:
        return topic.cannot_say("the draft's files name no architecture")
    return _registered(topic, wanted, runtime.architectures, derived=method is not Method.DRAFT_MODEL)


def draft_remote_code(arm: ArmCase, topic: Topic) -> Check | None:
    """Nothing of the draft's repository would be executed."""
    draft, runtime = arm.draft, arm.case.runtime
    if draft is None:
        return missing_draft(arm, topic)
    if draft.is_speculators_format:
        return topic.passes("the engine reads the speculators format itself; code in the repository is never run")
    wanted = draft.model_copy(update={"architectures": architectures_of(arm.arm.speculation.method, draft)})
    return _remote_code(topic, wanted, () if runtime is None else runtime.architectures)


def dedicated(arm: ArmCase, topic: Topic) -> Check | None:
    """A head is not sent down the generic path (spec P3), nor down that of another kind of head."""
    draft, method = arm.draft, arm.arm.speculation.method
    if draft is None:
        return missing_draft(arm, topic)
    found = dedicated_method(draft)
    if found is None:
        return _no_head(topic, method, draft)
    made_for, sign = found
    if made_for is method:
        return topic.passes(f"made for {made_for}: {sign}")
    words = f"{called(draft)} was made for method {made_for} ({sign}), not for {method}"
    if method is Method.DRAFT_MODEL:
        return topic.refuses(f"{words}; the generic path is refused", f"use method {made_for}")
    return topic.fails(words, f"use method {made_for}, or another draft")


def stated_method_kept(arm: ArmCase, topic: Topic) -> Check | None:
    """Neither the draft's name nor its configuration makes the engine take another method."""
    draft, method = arm.draft, arm.arm.speculation.method
    if draft is None:
        return missing_draft(arm, topic)
    name = arm.arm.draft_or_speculator.rpartition("@")[0]
    found = inferred_method(method, draft, name)
    if found is method:
        return topic.passes(f"the engine keeps method {method}")
    reason = f"from the draft's name or configuration the engine would take method {found} instead of {method}"
    return topic.fails(reason, f"use method {found}, or give the draft another alias")


def _no_head(topic: Topic, method: Method, draft: ModelFacts) -> Check:
    if method is Method.DRAFT_MODEL:
        return topic.passes(f"{called(draft)} is a model of its own")
    if method in {Method.MEDUSA, Method.MLP_SPECULATOR}:
        return topic.fails(
            f"nothing in the files of {called(draft)} says that it is a {method} head", "use another draft"
        )
    if draft.parameters is not None:  # the weights' header was read, and a head would have its fc tensor in it
        return topic.fails(f"{called(draft)} has no fc layer, so it is no {method} head", "use method draft_model")
    return topic.cannot_say(f"the files of {called(draft)} do not say what kind of draft it is")


def _registered(topic: Topic, wanted: tuple[str, ...], known: tuple[str, ...], *, derived: bool) -> Check:
    found = next((name for name in wanted if name in known), None)
    if found is not None:
        return topic.passes(f"the engine registers {found}")
    named = ", ".join(wanted)
    if derived:
        return topic.fails(f"the engine has no class {named}", "use a draft or a runtime that go together")
    # For a plain model the engine then asks the Transformers library, of which we know nothing here.
    return topic.cannot_say(f"the engine registers no {named}; it may take the Transformers library's own")


def _remote_code(topic: Topic, model: ModelFacts, known: tuple[str, ...]) -> Check:
    if not model.needs_remote_code:
        return topic.passes("the files name no code of their own")
    if any(name in known for name in model.architectures):
        return topic.cannot_say("the files carry code, which is never run; the engine has a class of its own for them")
    return topic.refuses("the files need code of their own, which is never run", "use a model that the engine knows")
