"""A runtime of two layers: a directory of packages (as ``pip install --target`` makes) before those of a Python.

For hosts whose image brings torch and whose vLLM lies beside it. Ours is only the environment that joins them: an
interpreter, one path file, one start script. PYTHONPATH plays no part, so that servers and questions see the same.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from app.domain.errors import DomainError

REMEDY = "name a Python that runs, such as /usr/bin/python3, and the directory that `pip install --target` filled"
_QUESTION = """
import json, sys
here = [p for p in sys.path if p.rstrip("/").endswith(("site-packages", "dist-packages"))]
base = getattr(sys, "_base_executable", None) or sys.executable
print(json.dumps([base, "%d.%d" % sys.version_info[:2], here]))
"""
_START = """#!{python}
import sys

from vllm.entrypoints.cli.main import main

if __name__ == "__main__":  # the engine starts processes that import this file
    sys.exit(main())
"""
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Layers:
    """``packages`` is found first; then each of ``below``, where ``interpreter`` has its own packages."""

    interpreter: Path
    python: str
    packages: Path
    below: tuple[Path, ...]


def find_layers(python: Path, packages: Path) -> Layers:
    """Ask the Python where its packages are. Raises ``DomainError``."""
    if next(packages.glob("vllm*.dist-info"), None) is None:
        raise DomainError.of("path", f"{packages} has no vLLM installed", REMEDY)
    try:
        asked = [str(python), "-I", "-c", _QUESTION]
        said = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S).stdout
        interpreter, version, below = json.loads(said)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise DomainError.of("python", f"{python} does not answer: {error}", REMEDY) from error
    return Layers(Path(interpreter), version, packages.resolve(), tuple(map(Path, below)))


def join(layers: Layers, directory: Path) -> None:
    """Write the environment, all but its start script: until then it is no runtime that could serve."""
    site_packages = directory / "lib" / f"python{layers.python}" / "site-packages"
    site_packages.mkdir(parents=True)
    (directory / "bin").mkdir()
    (directory / "bin" / "python").symlink_to(layers.interpreter)
    home = f"home = {layers.interpreter.parent}\ninclude-system-site-packages = false\n"
    (directory / "pyvenv.cfg").write_text(home)
    # Below, path files of the image's own are read too: some packages there are found through them.
    below = (f"import site; site.addsitedir({str(path)!r})" for path in layers.below)
    (site_packages / "layers.pth").write_text("\n".join([str(layers.packages), *below]) + "\n")


def write_start(directory: Path) -> None:
    """The program that serves."""
    path = directory / "bin" / "vllm"
    path.write_text(_START.format(python=directory / "bin" / "python"))
    path.chmod(0o755)
