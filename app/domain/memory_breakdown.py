"""One server's memory row by row, from what its log, its configuration and its models' files say.

Pure, so that a report can make it again. ``breakdown`` knows the server as it started, ``split_weights`` adds what only
another session tells; ``memory_peak`` has what was in use while it ran.
"""

from collections.abc import Iterator, Sequence

from app.domain.memory import (
    MemoryBreakdown,
    MemoryCheck,
    MemoryFacts,
    MemoryPart,
    MemoryRow,
    ModelMemory,
    Told,
    summed,
)
from app.domain.vocabulary import Method

PRINTED_BYTES = 1024**3 // 100
"""The engine prints hundredths of a GiB."""
_WITHOUT_MODEL = frozenset({Method.TARGET_ONLY, Method.NGRAM, Method.NGRAM_GPU, Method.SUFFIX, Method.CUSTOM_CLASS})
_WITHOUT_CACHE = frozenset({Method.MEDUSA, Method.MLP_SPECULATOR})
"""Heads without attention have nothing to cache."""
LOGGED = "engine log"
"""Where the capacity is from, if the log is all there is."""
NO_PEAK = "nothing was sampled while it ran"
SET_ASIDE = "what the engine's profiling run took, so that the cache leaves room for it: in use at most"
ACCOUNTING = (
    "Device used and free are the driver's figures, the cache's capacity is the engine's own: they are beside each "
    "other, not parts of each other. ECC, what the driver reserves and how the system accounts for memory move totals."
)
PRINTED = "The engine prints its figures in GiB with two decimals, so each is right to about 5 MB."
SHARED_PAGES = "The engine's processes share pages; resident memory counts them in each process."


def breakdown(facts: MemoryFacts) -> MemoryBreakdown:
    """The server as it started; its total, remainder and headroom are not known before its peak."""
    rows = (*_weights(facts), *_kv_cache(facts), _activations(facts), _graphs(facts), _reserve(facts))
    later = (Told(None, NO_PEAK).row(part) for part in (MemoryPart.REMAINDER, MemoryPart.HEADROOM))
    return MemoryBreakdown(
        rows=(*rows, *later),
        total_bytes=None,
        total_source=NO_PEAK,
        capacity_bytes=facts.capacity_bytes,
        kv_cache_tokens=facts.log.kv_tokens or facts.cache.tokens,
        max_concurrency=facts.log.max_concurrency,
        draft_file_bytes=facts.draft.file_bytes if facts.draft else None,
        checks=tuple(_checks(facts)),
        caveats=tuple(_caveats(facts)),
    )


def as_bound(row: MemoryRow) -> MemoryRow:
    """Activations come and go: their figure is of the profiling run, the largest batch that may ever be scheduled."""
    if row.part is not MemoryPart.ACTIVATIONS or row.size_bytes is None or row.at_most:
        return row
    return row.model_copy(update={"at_most": True, "source": f"{row.source}; {SET_ASIDE}"})


def split_weights(made: MemoryBreakdown, target_only: MemoryBreakdown) -> MemoryBreakdown:
    """The draft's weights as the difference to target-only in a session of its own, where the log gives only a sum."""
    both = row_of(made, MemoryPart.WEIGHTS)
    alone = row_of(target_only, MemoryPart.TARGET_WEIGHTS)
    if both is None or both.size_bytes is None or alone is None or alone.size_bytes is None:
        return made
    found = {
        MemoryPart.TARGET_WEIGHTS: Told(alone.size_bytes, f"{alone.source}, of target-only's own session"),
        MemoryPart.DRAFT_WEIGHTS: Told(
            both.size_bytes - alone.size_bytes,
            f"{both.source}, less the same of target-only's session; each is printed to {PRINTED_BYTES / 1e6:.0f} MB",
        ),
    }
    rows = (found[row.part].row(row.part) if row.part in found else row for row in made.rows)
    return made.model_copy(update={"rows": tuple(row for row in rows if row.part is not MemoryPart.WEIGHTS)})


def row_of(made: MemoryBreakdown, part: MemoryPart) -> MemoryRow | None:
    """The row of that part."""
    return next((row for row in made.rows if row.part is part), None)


def _weights(facts: MemoryFacts) -> Iterator[MemoryRow]:
    loaded = summed(facts.log.load, facts.ranks, 'engine log, "Model loading took … GiB"')
    none = Told(0, f"{facts.method} has no weights of its own")
    if loaded.size is None:
        yield _computed(facts.target, loaded.source).row(MemoryPart.TARGET_WEIGHTS)
        draft = none if facts.draft is None else _computed(facts.draft, loaded.source)
        yield draft.row(MemoryPart.DRAFT_WEIGHTS)
    elif facts.draft is None:
        yield loaded.row(MemoryPart.TARGET_WEIGHTS)
        yield none.row(MemoryPart.DRAFT_WEIGHTS)
    else:
        yield _apart("target", facts.target).row(MemoryPart.TARGET_WEIGHTS)
        yield _apart("draft", facts.draft).row(MemoryPart.DRAFT_WEIGHTS)
        yield loaded.row(MemoryPart.WEIGHTS)


def _computed(model: ModelMemory, why: str) -> Told:
    """From the headers alone, since the engine does not say."""
    return Told(model.weights_bytes, f"computed, not measured: {model.weights_words} ({why})")


def _apart(name: str, model: ModelMemory) -> Told:
    size = "unknown" if model.weights_bytes is None else f"{model.weights_bytes:,} bytes"
    return Told(
        None,
        f"the engine's one line covers target and draft; target-only's session gives the difference. "
        f"The {name}'s files come to {size} ({model.weights_words})",
    )


def _kv_cache(facts: MemoryFacts) -> Iterator[MemoryRow]:
    """The draft's layers share the blocks, so each model's part is its own bytes a token times the tokens."""
    engine, target, draft = _kv_stated(facts), _kv_part(facts, facts.target), _kv_draft(facts)
    if target.size is not None and draft.size is not None and _agree(facts, engine.size, target.size + draft.size):
        yield target.row(MemoryPart.KV_CACHE_TARGET)
        yield draft.row(MemoryPart.KV_CACHE_DRAFT)
    elif facts.draft is None:
        yield engine.row(MemoryPart.KV_CACHE_TARGET)
        yield draft.row(MemoryPart.KV_CACHE_DRAFT)
    else:
        unknown = [told.source for told in (target, draft) if told.size is None]
        why = "; ".join(unknown) or "what the layers come to is not the engine's own figure"
        yield Told(None, why).row(MemoryPart.KV_CACHE_TARGET)
        yield Told(None, why).row(MemoryPart.KV_CACHE_DRAFT)
        yield engine.row(MemoryPart.KV_CACHE)


def _kv_stated(facts: MemoryFacts) -> Told:
    if facts.cache.stated_bytes is not None:
        return Told(facts.cache.stated_bytes * facts.ranks, "resolved configuration, kv_cache_memory_bytes")
    return summed(facts.log.kv_cache, facts.ranks, 'engine log, "Available KV cache memory"')


def _kv_part(facts: MemoryFacts, model: ModelMemory) -> Told:
    tokens, each = facts.cache.tokens, model.kv_bytes_per_token
    if tokens is None or each is None:
        return Told(None, facts.cache.words if tokens is None else model.kv_words)
    return Told(tokens * each, f"{facts.cache.words} * {each:,} bytes a token ({model.kv_words})")


def _kv_draft(facts: MemoryFacts) -> Told:
    if facts.draft is None or facts.method in _WITHOUT_CACHE:
        return Told(0, f"{facts.method} caches nothing of its own")
    return _kv_part(facts, facts.draft)


def _agree(facts: MemoryFacts, engine: int | None, computed: int) -> bool:
    """Within what the engine rounds: a block that no longer fits, and the decimals that it prints."""
    if engine is None:
        return True
    each = [model.kv_bytes_per_token or 0 for model in (facts.target, facts.draft) if model is not None]
    return abs(engine - computed) <= facts.cache.block_tokens * sum(each) + facts.ranks * PRINTED_BYTES


def _activations(facts: MemoryFacts) -> MemoryRow:
    log, line = facts.log, 'engine log, "… GiB for peak activation"'
    told = summed(log.activations, facts.ranks, line)
    if told.size is not None and log.consumed and log.estimate_counts:
        estimate = sum(log.graphs_estimated)
        told = Told(told.size - estimate, f"{line}, less the estimate for graphs that it includes")
    row = _or_else(told, facts, "a CPU engine does not profile its activations").row(MemoryPart.ACTIVATIONS)
    return as_bound(row)


def _graphs(facts: MemoryFacts) -> MemoryRow:
    told = summed(facts.log.graphs, facts.ranks, 'engine log, "Graph capturing finished in …, took … GiB"')
    if facts.log.eager and told.size is None:
        told = Told(0, "engine log, enforce_eager: nothing is captured; workspaces are among the activations")
    return _or_else(told, facts, "a CPU engine says nothing of compiled code").row(MemoryPart.GRAPHS)


def _reserve(facts: MemoryFacts) -> MemoryRow:
    log, ranks = facts.log, facts.ranks
    before = _less(log.device_total, log.device_free, ranks, "in use on the device before the model was loaded")
    other = (
        _less(log.consumed, log.load, ranks, '"consumed memory" less "Model loading took"')
        if log.consumed
        else summed(log.non_torch, ranks, '"non-torch memory"')
    )
    if before.size is None or other.size is None:
        told = before if before.size is None else other
    else:
        told = Told(before.size + other.size, f"engine log, {before.source} + {other.source}")
    return _or_else(told, facts, "a CPU engine does not tell its libraries from its allocator").row(MemoryPart.RESERVE)


def _or_else(told: Told, facts: MemoryFacts, on_cpu: str) -> Told:
    return told if told.size is not None or facts.on_gpu else Told(None, on_cpu)


def _less(total: Sequence[int], part: Sequence[int], ranks: int, words: str) -> Told:
    whole, less = summed(total, ranks, words), summed(part, ranks, words)
    missing = whole if whole.size is None else less
    return missing if whole.size is None or less.size is None else Told(whole.size - less.size, words)


def _checks(facts: MemoryFacts) -> Iterator[MemoryCheck]:
    """The same quantity from two sources, wherever there are two."""
    log, ranks = facts.log, facts.ranks
    models = [model for model in (facts.target, facts.draft) if model is not None]
    loaded = summed(log.load, ranks, 'engine log, "Model loading took"')
    yield from pair_of("weights", loaded, _of_headers(models))
    target, draft = _kv_part(facts, facts.target), _kv_draft(facts)
    if target.size is not None and draft.size is not None:
        computed = Told(target.size + draft.size, "tokens * bytes a token of the models' layers")
        yield from pair_of("KV cache", _kv_stated(facts), computed)
    for name, size, model in zip(("target", "draft"), log.checkpoints, models, strict=False):
        files = Told(model.file_bytes, "sizes of the files")
        yield from pair_of(f"checkpoint of the {name}", Told(size, 'engine log, "Checkpoint size"'), files)
    if facts.capacity_source != LOGGED:
        logged = summed(log.device_total, ranks, 'engine log, "Free memory on device (…/total)"')
        yield from pair_of("capacity", Told(facts.capacity_bytes, facts.capacity_source), logged)
    share = summed(log.requested, ranks, 'engine log, "Desired GPU memory utilization"')
    yield from pair_of("what the engine may use", share, _budget(facts))


def _of_headers(models: Sequence[ModelMemory]) -> Told:
    known = all(model.weights_bytes is not None for model in models)
    words = "; ".join(model.weights_words for model in models)
    return Told(sum(model.weights_bytes or 0 for model in models) if known else None, words)


def _budget(facts: MemoryFacts) -> Told:
    """What the engine says that it fills its share with; graphs come on top."""
    log = facts.log
    consumed = log.consumed or tuple(a + b for a, b in zip(log.load, log.non_torch, strict=False))
    parts = [summed(part, facts.ranks, "") for part in (consumed, log.activations, log.kv_cache)]
    applied = sum(log.graphs_estimated) if log.estimate_counts and not log.consumed else 0
    known = all(part.size is not None for part in parts)
    return Told(
        sum(part.size or 0 for part in parts) + applied if known else None,
        "weights + non-torch + activations + KV cache",
    )


def pair_of(quantity: str, one: Told, other: Told) -> Iterator[MemoryCheck]:
    """The pair, where both are known."""
    if one.size is not None and other.size is not None:
        yield MemoryCheck(
            quantity=quantity,
            size_bytes=one.size,
            source=one.source,
            other_bytes=other.size,
            other_source=other.source,
        )


def _caveats(facts: MemoryFacts) -> Iterator[str]:
    yield ACCOUNTING
    yield PRINTED if facts.on_gpu else SHARED_PAGES
    if facts.log.shared:
        yield f"The draft takes from the target: {', '.join(facts.log.shared)}."
