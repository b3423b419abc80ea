"""What a method is, as the engine's sources say; whether a runtime has it is asked of the runtime."""

from app.domain.capability import ModelFacts
from app.domain.vocabulary import Method

READS_HIDDEN_STATES = frozenset(
    {
        Method.EAGLE,
        Method.EAGLE3,
        Method.MTP,
        Method.DFLASH,
        Method.DSPARK,
        Method.MEDUSA,
        Method.MLP_SPECULATOR,
    }
)
"""Its draft is a head on the target: it needs the target's hidden states and drafts in the target's token ids."""

RUNS_A_MODEL = frozenset({Method.DRAFT_MODEL, Method.EAGLE, Method.EAGLE3, Method.MTP, Method.DFLASH, Method.DSPARK})
"""Drafts by a forward pass with a KV cache of its own (``SpeculativeConfig.uses_draft_kv_cache``)."""

ASYNC_METHODS = RUNS_A_MODEL | {Method.NGRAM_GPU}
"""What ``--async-scheduling`` may be combined with (``VllmConfig.__post_init__``)."""

FIXED_LENGTH = frozenset({Method.MEDUSA, Method.SUFFIX})
"""Their proposers assert that every step asks for the same number of tokens."""

AUX_HIDDEN_STATES = frozenset({Method.EAGLE3, Method.DFLASH, Method.DSPARK})
"""They read inner layers of the target, so that its class must offer them (``supports_eagle3``)."""

_MEDUSA_ARCHITECTURE = "MedusaModel"
_SPECULATORS = "speculators"


def engine_architecture(method: Method, architecture: str) -> str:
    """The name under which the engine looks a draft of this method up (``EAGLEConfig``)."""
    if method is Method.EAGLE:
        return architecture if architecture.startswith("Eagle") else f"Eagle{architecture}"
    if method is Method.EAGLE3:
        named = architecture.startswith("Eagle3") or architecture.endswith("Eagle3")
        return architecture if named else f"Eagle3{architecture}"
    if method is Method.DFLASH:
        named = architecture.startswith("DFlash") or architecture.endswith("DFlash")
        return architecture if named or architecture == "LiLiCorrDraftModel" else f"DFlash{architecture}"
    return architecture


def architectures_of(method: Method, draft: ModelFacts) -> tuple[str, ...]:
    """Every name under which the engine would look for the draft's class; empty where the files do not say."""
    if method is Method.MEDUSA:  # the engine overrides model_type; its config class supplies the architecture
        return draft.architectures or (_MEDUSA_ARCHITECTURE,)
    return tuple(engine_architecture(method, name) for name in draft.architectures)


MTP_CLASSES = {
    "deepseek_v3": "DeepSeekMTPModel",
    "deepseek_v32": "DeepseekV32MTPModel",
    "glm_moe_dsa": "DeepseekV32MTPModel",
    "deepseek_v4": "DeepSeekV4MTPModel",
    "ernie4_5_moe": "ErnieMTPModel",
    "pangu_ultra_moe": "OpenPanguMTPModel",
    "nemotron_h": "NemotronHMTPModel",
    "qwen3_5": "Qwen3_5MTP",
    "qwen3_5_text": "Qwen3_5MTP",
    "qwen3_5_moe": "Qwen3_5MoeMTP",
    "qwen3_5_moe_text": "Qwen3_5MoeMTP",
    "longcat_flash": "LongCatFlashMTPModel",
    "step3p5": "Step3p5MTP",
    "hy_v3": "HYV3MTPModel",
    "hy_v4": "HYV4MTPModel",
    "kimi_k3": "KimiK3MTPModel",
}
"""Target ``model_type`` → its MTP class, where the name does not follow from the target's (``hf_config_override``)."""

_MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules", "n_predict")


def mtp_layers(target: ModelFacts) -> int | None:
    """How many layers of multi-token prediction the target's configuration states; ``None`` where it states none."""
    stated = (target.head.get(key) for key in _MTP_LAYERS)
    return next((n for n in stated if isinstance(n, int) and n > 0), None)


def mtp_class(target: ModelFacts, registered: tuple[str, ...]) -> str | None:
    """The registered class of the target's MTP module; ``None`` where none is recognised."""
    stems = [name.removesuffix("ForCausalLM") for name in target.architectures]
    named = [f"{stem}{ending}" for stem in stems for ending in ("MTPModel", "MTP")]
    candidates = [MTP_CLASSES.get(target.model_type or "", ""), *named]
    return next((name for name in candidates if name in registered), None)


_NAMED_IN_PATH = (
    ("eagle-", Method.EAGLE),
    ("eagle3", Method.EAGLE3),
    ("dflash", Method.DFLASH),
    ("dspark", Method.DSPARK),
)
_KEEPS_ITS_METHOD = frozenset({Method.EAGLE, Method.EAGLE3, Method.DFLASH, Method.DSPARK})


def inferred_method(method: Method, draft: ModelFacts, name: str) -> Method:
    """The method that the engine ends up with: some words in a draft's path override the stated one.

    As ``SpeculativeConfig.__post_init__`` does after it has read the draft's configuration.
    """
    if method in _KEEPS_ITS_METHOD:
        return method
    lower = name.lower()
    found = next((other for word, other in _NAMED_IN_PATH if word in lower), None)
    if found is not None:
        return found
    by_type = {"medusa": Method.MEDUSA, "mlp_speculator": Method.MLP_SPECULATOR}
    if draft.model_type in by_type:
        return by_type[draft.model_type]
    return Method.MTP if method is Method.DRAFT_MODEL and _is_mtp(draft) else method


def _is_mtp(draft: ModelFacts) -> bool:
    in_type = (draft.model_type or "").endswith("_mtp") or draft.model_type in MTP_CLASSES
    return in_type or mtp_layers(draft) is not None


def dedicated_method(draft: ModelFacts) -> tuple[Method, str] | None:
    """The method that a draft was made for and what in its files says so; ``None`` for a model of its own."""
    return _by_type(draft) or _by_architecture(draft) or _by_content(draft)


def _by_type(draft: ModelFacts) -> tuple[Method, str] | None:
    kind = draft.head.get("speculators_model_type")
    by_kind = {"eagle": Method.EAGLE, "eagle3": Method.EAGLE3, "peagle": Method.EAGLE3, "dflash": Method.DFLASH}
    if kind in by_kind:
        return by_kind[kind], f"speculators_model_type {kind}"
    by_model_type = {"medusa": Method.MEDUSA, "mlp_speculator": Method.MLP_SPECULATOR, "eagle": Method.EAGLE}
    if draft.model_type in by_model_type:
        return by_model_type[draft.model_type], f"model_type {draft.model_type}"
    return (Method.MTP, f"model_type {draft.model_type}") if (draft.model_type or "").endswith("_mtp") else None


def _by_architecture(draft: ModelFacts) -> tuple[Method, str] | None:
    for name in draft.architectures:
        for method, fits in (
            (Method.EAGLE3, name.startswith(("Eagle3", "Peagle")) or name.endswith("Eagle3")),
            (Method.EAGLE, name.startswith("Eagle")),
            (Method.DFLASH, "DFlash" in name),
            (Method.DSPARK, "DSpark" in name),
            (Method.MEDUSA, name == _MEDUSA_ARCHITECTURE),
            (Method.MLP_SPECULATOR, name.startswith("MLPSpeculator")),
            (Method.MTP, name.endswith(("MTPModel", "MTP"))),
        ):
            if fits:
                return method, f"architecture {name}"
    return None


def _by_content(draft: ModelFacts) -> tuple[Method, str] | None:
    if "dflash_config" in draft.head:
        return Method.DFLASH, "dflash_config"
    if any(key in draft.head for key in ("eagle_aux_hidden_state_layer_ids", "eagle_config", "draft_vocab_size")):
        return Method.EAGLE3, "keys of an EAGLE-3 head"
    if "medusa_num_heads" in draft.head or "num_heads" in draft.head:
        return Method.MEDUSA, "the number of its heads"
    shape = draft.head.get("fc")
    if shape is None or draft.hidden_size is None:
        return None
    # An EAGLE head joins the token's embedding with one hidden state, an EAGLE-3 head joins three of them.
    return (Method.EAGLE, "its fc layer") if shape[1] == 2 * draft.hidden_size else (Method.EAGLE3, "its fc layer")
