"""Does a head fit the target whose hidden states it reads, and does it have as many heads as tokens are asked for?"""

from collections.abc import Sequence
from typing import Any

from app.domain.capability import ModelFacts
from app.domain.preflight.case import ArmCase, called, missing_draft
from app.domain.preflight.methods import AUX_HIDDEN_STATES, READS_HIDDEN_STATES, mtp_class, mtp_layers
from app.domain.preflight.outcome import Check, Topic
from app.domain.preflight.runtime import no_runtime
from app.domain.vocabulary import Method

AUX_LAYERS_DEFAULT = 3
"""How many inner layers an EAGLE-3 head joins where its configuration does not say (``llama_eagle3.py``)."""

_MASK_TOKENS = ("mask_token_id", "dspark_noise_token_id", "pard_token", "ptd_token_id")
"""``SpecDecodeBaseProposer._init_parallel_drafting_params``; ``dflash_config.mask_token_id`` besides."""


def hidden_size(arm: ArmCase, topic: Topic) -> Check | None:
    """The head reads hidden states of the width that the target makes."""
    draft, target = arm.draft, arm.case.target
    if arm.arm.speculation.method not in READS_HIDDEN_STATES or draft is None:
        return missing_draft(arm, topic) if arm.arm.speculation.method in READS_HIDDEN_STATES else None
    wanted = draft.head.get("target_hidden_size") or draft.hidden_size
    if target is None or target.hidden_size is None or wanted is None:
        return topic.cannot_say("the files do not state the hidden sizes")
    if wanted != target.hidden_size:
        reason = f"the head reads hidden states of {wanted}, the target makes {target.hidden_size}"
        return topic.fails(reason, "use a head that was trained for this target")
    return topic.passes(f"both have hidden states of {wanted}")


def inner_layers(arm: ArmCase, topic: Topic) -> Check | None:
    """The target's class offers inner hidden states, and exactly as many layers are read as the head joins.

    The engine reads each distinct layer once and only from 0 to the number of layers; any other number kills
    the first request (``_set_aux_hidden_state_layers``).
    """
    method, draft, target = arm.arm.speculation.method, arm.draft, arm.case.target
    if method not in AUX_HIDDEN_STATES or draft is None or _reads_last_layer(draft):
        return None
    refused = _offers_inner_layers(arm, topic)
    if refused is not None or method is not Method.EAGLE3:
        return refused
    if target is None or target.num_hidden_layers is None:
        return topic.cannot_say("the target's files do not state its number of layers")
    asked = _asked_layers(draft, target.num_hidden_layers)
    read = sorted({n for n in asked if 0 <= n <= target.num_hidden_layers})
    joined = _joined_layers(draft)
    words = (
        f"the head joins {joined} inner layers; of {list(asked)} the target of {target.num_hidden_layers} gives {read}"
    )
    if len(read) != joined:
        return topic.fails(words, "use a head whose eagle_aux_hidden_state_layer_ids suit this target")
    return topic.passes(words)


def mtp_module(arm: ArmCase, topic: Topic) -> Check | None:
    """The target carries layers of multi-token prediction for which the engine has a class."""
    if arm.arm.speculation.method is not Method.MTP:
        return None
    module, runtime = _module(arm), arm.case.runtime
    if module is None:
        return topic.cannot_say("the files that should carry the module were not read")
    layers = mtp_layers(module)
    if layers is None:
        return topic.fails(
            f"{called(module)} has no multi-token prediction layers", "use another method, or another target"
        )
    if runtime is None or not runtime.architectures:
        return no_runtime(topic)
    found = mtp_class(module, runtime.architectures)
    if found is None:
        return topic.cannot_say(f"{layers} MTP layers, but no class of the engine is recognised as theirs")
    return topic.passes(f"the engine has {found} for the {layers} MTP layers of {called(module)}")


def draft_length(arm: ArmCase, topic: Topic) -> Check | None:
    """The head can draft ``num_speculative_tokens``."""
    method, k = arm.arm.speculation.method, arm.arm.speculation.num_speculative_tokens or 0
    if method is Method.MTP:
        return _mtp_length(arm, topic, k)
    if method is not Method.MEDUSA:
        return None
    draft = arm.draft
    if draft is None:
        return missing_draft(arm, topic)
    heads = draft.head.get("num_heads", draft.head.get("medusa_num_heads"))
    if not isinstance(heads, int):
        return topic.cannot_say("the draft's files do not state its number of heads")
    if k > heads:  # MedusaConfig takes k as its number of heads; those without weights stay uninitialised
        return topic.fails(f"{k} tokens from {heads} heads: the others would draft noise", f"ask for at most {heads}")
    return topic.passes(f"{k} tokens from {heads} heads")


def parallel_drafting(arm: ArmCase, topic: Topic) -> Check | None:
    """A draft that proposes all tokens at once has a token that stands for those not yet drafted."""
    speculation, draft = arm.arm.speculation, arm.draft
    if not speculation.parallel_drafting and speculation.method is not Method.DFLASH:
        return None
    if draft is None:
        return missing_draft(arm, topic)
    named = [key for key in _MASK_TOKENS if draft.head.get(key) is not None]
    if not named and _nested(draft, "dflash_config", "mask_token_id") is None:
        reason = f"{called(draft)} has no mask token, which drafting in parallel needs"
        return topic.fails(reason, f"use a draft whose configuration has one of {', '.join(_MASK_TOKENS)}")
    return topic.passes(f"its configuration has {named[0] if named else 'dflash_config.mask_token_id'}")


def _mtp_length(arm: ArmCase, topic: Topic, k: int) -> Check | None:
    module = _module(arm)
    layers = None if module is None else mtp_layers(module)
    if layers is None:
        return topic.cannot_say("the files state no MTP layers")
    if k > layers and k % layers:  # SpeculativeConfig: "must be divisible by n_predict"
        return topic.fails(f"{k} tokens are not a multiple of the {layers} MTP layers", f"use a multiple of {layers}")
    again = "; the layers are run again for further tokens" if k > layers else ""
    return topic.passes(f"{k} tokens from {layers} MTP layers{again}")


def _module(arm: ArmCase) -> ModelFacts | None:
    """The model whose files carry the MTP layers: the named draft, or else the target itself."""
    return arm.draft if arm.has_draft else arm.case.target


def _offers_inner_layers(arm: ArmCase, topic: Topic) -> Check | None:
    """A refusal, or ``None`` for an EAGLE-3 arm whose target offers them; other methods get their answer here."""
    runtime, target = arm.case.runtime, arm.case.target
    if runtime is None or not runtime.eagle3_architectures:
        return topic.cannot_say("the runtime does not say which targets offer their inner layers")
    if target is None or not target.architectures:
        return topic.cannot_say("the target's files name no architecture")
    if not any(name in runtime.eagle3_architectures for name in target.architectures):
        named = ", ".join(target.architectures)
        return topic.fails(f"the engine's {named} does not offer its inner layers", "use another method or target")
    if arm.arm.speculation.method is Method.EAGLE3:
        return None
    return topic.passes(f"the engine's {target.architectures[0]} offers its inner layers")


def _asked_layers(draft: ModelFacts, layers: int) -> Sequence[int]:
    """As ``GPUModelRunner._get_eagle3_aux_layers_from_config``, with the default of ``SupportsEagle3``."""
    nested = _nested(draft, "eagle_config", "eagle_aux_hidden_state_layer_ids")
    stated = draft.head.get("eagle_aux_hidden_state_layer_ids") or nested
    return tuple(stated) if stated else (2, layers // 2, layers - 3)


def _joined_layers(draft: ModelFacts) -> int:
    stated = draft.head.get("num_aux_hidden_states")
    nested = _nested(draft, "eagle_config", "eagle_aux_hidden_state_layer_ids")
    return stated or (len(nested) if nested else AUX_LAYERS_DEFAULT)


def _reads_last_layer(draft: ModelFacts) -> bool:
    return _nested(draft, "eagle_config", "use_aux_hidden_state") is False


def _nested(draft: ModelFacts, key: str, inner: str) -> Any:
    found = draft.head.get(key)
    return found.get(inner) if isinstance(found, dict) else None
