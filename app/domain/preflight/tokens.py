"""Do target and draft mean the same by a token id, and by the tokens that end and frame a text?"""

from app.domain.capability import ModelFacts
from app.domain.preflight.case import ArmCase, Case, called, missing_draft
from app.domain.preflight.methods import READS_HIDDEN_STATES
from app.domain.preflight.outcome import Check, Topic
from app.domain.vocabulary import Method

_OTHER_DRAFT = "use a draft of the same family, or use_heterogeneous_vocab with method draft_model"


def target_tokenizer(case: Case, topic: Topic) -> Check:
    """``target_tokenizer`` gives only ids that the target has, and the same ids as the target's own."""
    target, tokenizer = case.target, case.tokenizer
    if target is None or tokenizer is None or target.vocab_size is None or tokenizer.vocabulary_tokens is None:
        return topic.cannot_say("the tokenizer or the target's vocabulary size could not be read")
    words = f"{tokenizer.vocabulary_tokens:,} tokens, {target.vocab_size:,} ids in the target"
    if tokenizer.vocabulary_tokens > target.vocab_size:
        return topic.fails(words, "use the target's own tokenizer")
    own = target.vocabulary_sha256
    if own is not None and own != tokenizer.vocabulary_sha256:
        return topic.fails("it is not the target's own vocabulary, token by token", "use the target's own tokenizer")
    return topic.passes(words)


def vocabulary_size(arm: ArmCase, topic: Topic) -> Check | None:
    """Target and draft have equally many ids; the engine refuses a draft model that has not."""
    draft, target, method = arm.draft, arm.case.target, arm.arm.speculation.method
    if draft is None or method in {Method.MEDUSA, Method.MTP}:  # the engine gives these the target's size
        return missing_draft(arm, topic)
    if target is None or target.vocab_size is None or draft.vocab_size is None:
        return topic.cannot_say("the files do not state the vocabulary sizes")
    words = f"{target.vocab_size:,} ids in the target, {draft.vocab_size:,} in the draft"
    if arm.arm.speculation.use_heterogeneous_vocab:
        return topic.passes(f"{words}, mapped by use_heterogeneous_vocab")
    if target.vocab_size != draft.vocab_size:
        return topic.fails(words, _OTHER_DRAFT)
    return topic.passes(words)


def tokenizer_equality(arm: ArmCase, topic: Topic) -> Check | None:
    """Every id is the same token in both, added tokens included."""
    draft, tokenizer = arm.draft, arm.case.tokenizer
    if draft is None:
        return missing_draft(arm, topic)
    if arm.arm.speculation.use_heterogeneous_vocab:
        return _mapped(arm, topic, draft)
    if draft.vocabulary_sha256 is None and arm.arm.speculation.method in READS_HIDDEN_STATES:
        return topic.passes("the head has no tokenizer; it drafts in the target's ids")
    if draft.vocabulary_sha256 is None or tokenizer is None or tokenizer.vocabulary_sha256 is None:
        return topic.cannot_say("a tokenizer could not be read")
    if draft.vocabulary_sha256 != tokenizer.vocabulary_sha256:
        return topic.fails("some ids are other tokens in the draft than in the target", _OTHER_DRAFT)
    return topic.passes(f"all {draft.vocabulary_tokens or 0:,} tokens have the same ids")


def special_tokens(arm: ArmCase, topic: Topic) -> Check | None:
    """The draft gives the same roles to the same tokens. Other roles are lossless: only acceptance can tell."""
    pair = _models(arm)
    if pair is None:
        return _of_draft_model(arm, topic)
    target, draft = pair
    roles = sorted(target.special_tokens.keys() & draft.special_tokens.keys())
    if not roles:
        return topic.cannot_say("the files name no special tokens in common")
    other = [r for r in roles if target.special_tokens[r] != draft.special_tokens[r]]
    if other:
        said = "; ".join(f"{r} is {target.special_tokens[r]!r} and {draft.special_tokens[r]!r}" for r in other)
        return topic.cannot_say(f"{said}: outputs stay right, acceptance may suffer")
    return topic.passes(f"the same {', '.join(roles)}")


def stop_tokens(arm: ArmCase, topic: Topic) -> Check | None:
    """The draft knows at least one of the tokens that end the target's texts; the engine stops by the target's."""
    pair = _models(arm)
    if pair is None:
        return _of_draft_model(arm, topic)
    target, draft = pair
    if arm.arm.speculation.use_heterogeneous_vocab:
        return topic.cannot_say("with other vocabularies, ids of end tokens cannot be compared")
    if not target.eos_token_ids or not draft.eos_token_ids:
        return topic.cannot_say("the files name no end tokens")
    common = sorted(set(target.eos_token_ids) & set(draft.eos_token_ids))
    words = f"the target ends with {sorted(target.eos_token_ids)}, the draft with {sorted(draft.eos_token_ids)}"
    if not common:
        return topic.fails(f"{words}: the draft never learned to end", "use a draft of the same family")
    return topic.passes(words)


def chat_template(arm: ArmCase, topic: Topic) -> Check | None:
    """Both frame dialogues alike. The engine applies the target's only, so that another one is lossless."""
    pair = _models(arm)
    if pair is None:
        return _of_draft_model(arm, topic)
    target, draft = pair
    if draft.chat_template_sha256 is None:
        return topic.passes("the draft has none; the target's alone is applied")
    if target.chat_template_sha256 is None:
        return topic.cannot_say("the target has none, the draft has one: it may expect dialogues")
    if target.chat_template_sha256 != draft.chat_template_sha256:
        return topic.cannot_say("they differ: outputs stay right, acceptance may suffer")
    return topic.passes("the same in both")


def _mapped(arm: ArmCase, topic: Topic, draft: ModelFacts) -> Check:
    """Tokens outside the intersection become the unknown token; without one the engine puts an end token there."""
    tokenizer = arm.case.tokenizer
    if tokenizer is None or not tokenizer.special_tokens or not draft.special_tokens:
        return topic.cannot_say("the special tokens of both tokenizers are not known")
    lacking = [called(m) for m in (tokenizer, draft) if "unk_token" not in m.special_tokens]
    if lacking:
        reason = f"{' and '.join(lacking)} has no unk_token: the engine would put the end token for unmapped tokens"
        return topic.fails(reason, "use a pair of one vocabulary")
    return topic.passes("shared tokens are mapped, others become the unknown token")


def _models(arm: ArmCase) -> tuple[ModelFacts, ModelFacts] | None:
    """Target and draft, where the draft is a model of its own; a head has no dialogue or end of its own."""
    draft, target = arm.draft, arm.case.target
    if draft is None or target is None or arm.arm.speculation.method is not Method.DRAFT_MODEL:
        return None
    return target, draft


def _of_draft_model(arm: ArmCase, topic: Topic) -> Check | None:
    if arm.arm.speculation.method is not Method.DRAFT_MODEL:
        return None
    return missing_draft(arm, topic) or topic.cannot_say("the target's files were not read")
