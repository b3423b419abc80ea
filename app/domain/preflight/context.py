"""How far target and draft can read, and how they count positions."""

from typing import Any

from app.domain.capability import ModelFacts
from app.domain.preflight.case import ArmCase, Case, missing_draft
from app.domain.preflight.outcome import Check, Topic
from app.domain.vocabulary import Method

SCALED_ALREADY = frozenset({"su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling"})
"""Rope types whose ``max_position_embeddings`` is the length after scaling (``_get_and_verify_max_len``)."""

_SHARES_POSITIONS = frozenset({Method.EAGLE, Method.EAGLE3})


def context_length(case: Case, topic: Topic) -> Check:
    """The target can read ``serving.max_model_len`` tokens; the engine refuses more."""
    asked, target = case.manifest.serving.max_model_len, case.target
    limit = None if target is None else positions(target)
    if limit is None:
        return topic.cannot_say("the target's files do not state how far it reads")
    if asked > limit:
        return topic.fails(f"the target reads {limit:,} tokens, not {asked:,}", f"use at most {limit}")
    return topic.passes(f"the target reads {limit:,} tokens, {asked:,} are asked for")


def draft_context(arm: ArmCase, topic: Topic) -> Check | None:
    """What becomes of the draft's own limit: refused, lowered, raised, or a point where drafting ends."""
    draft, method = arm.draft, arm.arm.speculation.method
    if draft is None or method not in {Method.DRAFT_MODEL, *_SHARES_POSITIONS}:
        return missing_draft(arm, topic)
    limit, asked = positions(draft), arm.case.manifest.serving.max_model_len
    if limit is None:
        return topic.cannot_say("the draft's files do not state how far it reads")
    own = arm.arm.speculation.max_model_len
    if own is not None:
        return _stated_limit(topic, own, limit, asked)
    if method in _SHARES_POSITIONS and limit < asked:
        return topic.passes(f"the head reads {limit:,} positions; the engine raises that to {asked:,}")
    if limit < asked:
        return topic.passes(f"beyond {limit:,} tokens the engine stops drafting; the target goes on to {asked:,}")
    return topic.passes(
        f"the draft reads {limit:,} tokens; the engine lowers that to {asked:,}" if limit > asked else f"both {asked:,}"
    )


def rope(arm: ArmCase, topic: Topic) -> Check | None:
    """A head counts positions as the target does; a model of its own counts for itself."""
    draft, target = arm.draft, arm.case.target
    if draft is None:
        return missing_draft(arm, topic)
    if arm.arm.speculation.method not in _SHARES_POSITIONS:
        return None
    if target is None or not target.rope or not draft.rope:
        return topic.cannot_say("the files do not state their rope settings")
    other = sorted(k for k in target.rope.keys() & draft.rope.keys() if target.rope[k] != draft.rope[k])
    if other:
        said = "; ".join(f"{k} is {target.rope[k]} and {draft.rope[k]}" for k in other)
        return topic.cannot_say(f"{said}: the head may have been trained so; outputs stay right")
    return topic.passes("the same rope settings")


def positions(model: ModelFacts) -> int | None:
    """How many positions a model reads, after rope scaling, as the engine derives it."""
    stated = model.max_position_embeddings
    if stated is None:
        return None
    return int(stated * (1.0 if "gemma3" in (model.model_type or "") else _rope_factor(model.rope)))


def _rope_factor(rope_settings: dict[str, Any]) -> float:
    scaling = rope_settings.get("rope_scaling") or rope_settings.get("rope_parameters")
    if not isinstance(scaling, dict):
        return 1.0
    kind = scaling.get("rope_type", scaling.get("type"))
    return 1.0 if kind in SCALED_ALREADY else float(scaling.get("factor") or 1.0)


def _stated_limit(topic: Topic, own: int, limit: int, asked: int) -> Check:
    if own > limit or own > asked:  # SpeculativeConfig._maybe_override_draft_max_model_len
        reason = f"the draft's max_model_len {own:,} is above its own {limit:,} or the target's {asked:,}"
        return topic.fails(reason, f"use at most {min(limit, asked)}")
    return topic.passes(f"beyond {own:,} tokens the engine stops drafting, as stated")
