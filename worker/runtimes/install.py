"""Make an engine runtime: a venv of its own from a hash-locked requirements file, never the service's.

A venv cannot be moved, so it is built in place and a stamp is written last: without the right stamp it is
not a runtime and is built anew.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from app.domain.errors import DomainError
from worker.filelock import exclusive
from worker.runtimes.recipes import GIB, STAMP, InstallRefused, Recipe, recipe

LOCKED_FLAGS = ("--require-hashes", "--only-binary", ":all:")
"""How a lock is installed: nothing without its hash, nothing built here."""
BUILT_FLAGS = ("--require-hashes", "--no-binary", ":all:", "--no-build-isolation", "--no-cache-dir")
"""How sources are: nothing without its hash, built with what the runtime itself holds and nothing fetched beside."""
COMPILERS = ("c++", "g++", "clang++")


def installed(name: str, runtime_root: Path) -> bool:
    """Whether the runtime is there, complete and made from the present recipe."""
    return _stamp(runtime_root / name) == recipe(name).digest()


def install(name: str, runtime_root: Path, *, torch_index: str, say: Callable[[str], None] = print) -> Path:
    """Make the runtime unless it is there; returns its directory. Two at once: the second waits for the first.

    Raises ``InstallRefused`` with the remedy when disk, network or a suitable Python is missing.
    """
    wanted, root = recipe(name), runtime_root / name
    if installed(name, runtime_root):
        return root
    _require_compiler(wanted)
    runtime_root.mkdir(parents=True, exist_ok=True)
    with exclusive(runtime_root / f".{name}.lock", waiting=lambda: say(f"waiting for another install of {name}")):
        if not installed(name, runtime_root):
            _require_space(runtime_root, wanted.free_gib_min)
            _build(wanted, root, torch_index, say)
            (root / STAMP).write_text(json.dumps({"recipe": wanted.digest()}) + "\n")
    return root


def _build(wanted: Recipe, root: Path, torch_index: str, say: Callable[[str], None]) -> None:
    python = _make_venv(wanted, root, torch_index, say)
    say(f"installing {sum(1 for _ in _locked_names(wanted.lock))} locked distributions")
    finished = _pip(python, *LOCKED_FLAGS, "--requirement", str(wanted.lock))
    if finished.returncode:
        raise _explained(finished.stdout)
    if wanted.built is not None:
        say(f"building {', '.join(_locked_names(wanted.built))} from its sources, about a minute")
        finished = _pip(python, *BUILT_FLAGS, "--requirement", str(wanted.built), first_on_path=root / "bin")
        if finished.returncode:
            raise _explained(finished.stdout)
    if wanted.shim is not None:
        _write_shim(next((root / "lib").glob("python*/site-packages")), *wanted.shim)


def _make_venv(wanted: Recipe, root: Path, torch_index: str, say: Callable[[str], None]) -> Path:
    """The venv's interpreter; with torch in it where the lock does not hold it."""
    interpreters = list(_interpreters(wanted.pythons))
    if not interpreters:
        remedy = f"install one of {', '.join(wanted.pythons)}"
        raise InstallRefused.of("python", "no Python that the engine supports", remedy)
    if wanted.torch is not None:
        return _make_venv_with_torch(wanted.torch, interpreters, root, torch_index, say)
    return _new_venv(interpreters[0], root)


def _new_venv(interpreter: str, root: Path) -> Path:
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", "--without-pip", str(root)], check=True, env=_clean_env())
    return root / "bin" / "python"


def _make_venv_with_torch(
    torch: str, interpreters: list[str], root: Path, torch_index: str, say: Callable[[str], None]
) -> Path:
    """The first Python and the first index that together have this torch.

    pip's own set-up is asked before ``torch_index``, so that a host with a mirror never leaves it.
    """
    said = ""
    for index in ([], ["--index-url", torch_index, "--retries", "1", "--timeout", "30"]):
        for interpreter in interpreters:
            say(f"{torch} for {interpreter}{f' from {torch_index}' if index else ''}")
            python = _new_venv(interpreter, root)
            finished = _pip(python, *index, torch)
            if finished.returncode == 0:
                return python
            said = finished.stdout
            if "No space left" in said:
                raise _explained(said)
    raise InstallRefused.of(
        "torch_index",
        f"{torch} was found for no Python here (tried {', '.join(interpreters)}); pip said: {said.strip()[-300:]}",
        f"install Python 3.11, or set VERDRAFT_TORCH_INDEX to an index that has {torch}",
    )


def _interpreters(pythons: tuple[str, ...]) -> Iterator[str]:
    """Real interpreters of the versions asked for, without repeats; a shim that does not start is passed over."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    names = [f"python{version}" for version in pythons]
    seen: set[str] = set()
    for candidate in [*filter(None, map(shutil.which, names)), str(base)]:
        ask = "import sys, venv; print(sys.base_prefix, '%d.%d' % sys.version_info[:2])"
        asked = subprocess.run([candidate, "-c", ask], capture_output=True, text=True, env=_clean_env(), check=False)
        if asked.returncode == 0 and asked.stdout.split()[-1] in pythons and asked.stdout not in seen:
            seen.add(asked.stdout)
            yield candidate


def _pip(python: Path, *arguments: str, first_on_path: Path | None = None) -> "subprocess.CompletedProcess[str]":
    # The service's pip installs into the runtime, so that the runtime holds nothing but the engine.
    argv = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-input", *arguments]
    path = f"{first_on_path}{os.pathsep}" if first_on_path else ""
    return subprocess.run(
        argv,
        # Without VIRTUAL_ENV: CMake would build for that one's Python.
        env={**_clean_env(), "PATH": path + os.environ.get("PATH", os.defpath)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _write_shim(site_packages: Path, name: str, version: str) -> None:
    """A metadata-only distribution, as an installer would have written it."""
    directory = site_packages / f"{name}-{version}.dist-info"
    directory.mkdir()
    files = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: verdraft\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "INSTALLER": "verdraft\n",
    }
    record = ""
    for file_name, text in files.items():
        (directory / file_name).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{directory.name}/{file_name},sha256={digest},{len(text)}\n"
    (directory / "RECORD").write_text(f"{record}{directory.name}/RECORD,,\n")


def _require_compiler(wanted: Recipe) -> None:
    """Said before gigabytes are fetched."""
    if wanted.built is None or any(map(shutil.which, COMPILERS)):
        return
    needing = ", ".join(_locked_names(wanted.built))
    remedy = "install one (Debian: apt install g++), or install the runtime without it"
    raise InstallRefused.of("compiler", f"{needing} is built from C++ and there is no {' or '.join(COMPILERS)}", remedy)


def _require_space(directory: Path, free_gib_min: int) -> None:
    free_gib = shutil.disk_usage(directory).free / GIB
    if free_gib < free_gib_min:
        message = f"{directory} has {free_gib:.1f} GiB free, the runtime needs {free_gib_min}"
        raise InstallRefused.of("runtime_root", message, "free some space, or set VERDRAFT_RUNTIME_ROOT elsewhere")


def _explained(said: str) -> DomainError:
    tail = said.strip()[-600:]
    if "No space left" in said:
        return InstallRefused.of(
            "runtime_root", "the disk is full", "free 5 GiB, or set VERDRAFT_RUNTIME_ROOT elsewhere"
        )
    if any(word in said for word in ("NewConnectionError", "Connection", "Temporary failure", "timed out")):
        remedy = "connect to a package index once; after set-up no network is needed"
        return InstallRefused.of("network", f"a package index cannot be reached: {tail}", remedy)
    return InstallRefused.of("runtime", f"pip failed: {tail}", "read the message above and run the command again")


def _locked_names(lock: Path) -> Iterator[str]:
    return (line.split("==")[0] for line in lock.read_text().splitlines() if "==" in line and line[0].isalnum())


def _stamp(root: Path) -> str | None:
    try:
        return json.loads((root / STAMP).read_text())["recipe"]
    except (OSError, ValueError, KeyError):
        return None


def _clean_env() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV")}
