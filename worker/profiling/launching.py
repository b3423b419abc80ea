"""An arm's own launch with vLLM's torch profiler; nothing else of it changes."""

import json
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from app.domain.errors import FieldProblem, ManifestRefused
from app.domain.launch import LaunchSpec
from app.domain.step_profile import SWITCH

FLAG = "--profiler-config"


def with_profiler(spec: LaunchSpec, directory: Path, serve_flags: Collection[str] | None) -> LaunchSpec:
    """``spec`` with a profiler that writes into ``directory`` once it is started over HTTP.

    Raises ``ManifestRefused`` where the runtime does not know the flag; ``None``, where it was not asked, tries it.
    """
    if serve_flags is not None and FLAG not in serve_flags:
        message = f"{spec.argv[0]} does not know {FLAG}, so that nothing of it can be profiled"
        raise ManifestRefused(
            FieldProblem("runtime", message, "use a newer runtime; `verdraft runtime list` has those of this host")
        )
    profiler = {
        "profiler": "torch",
        "torch_profiler_dir": str(directory.resolve()),
        "torch_profiler_with_stack": False,  # stacks cost more than all the rest
        "ignore_frontend": True,  # another process, that takes no part in a step
    }
    compact = json.dumps(profiler, sort_keys=True, separators=(",", ":"))
    return replace(spec, argv=(*spec.argv, FLAG, compact), env={**spec.env, SWITCH: "1"})
