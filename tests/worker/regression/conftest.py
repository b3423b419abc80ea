"""Two faithful fakes of one small model, one of which drafts and can be made to break every property in turn."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from app.settings import Settings
from tests.fakes.mutations import mutate
from tests.fakes.runtime import make_fake_runtime
from tests.fakes.servers import REPOSITORY, SERVED_MODEL_NAME
from worker.regression.bench import Bench, Kept
from worker.regression.case import Case
from worker.regression.prompts import Prompts, read_prompts
from worker.regression.suite import CASES
from worker.regression.trying import run_case
from worker.regression.verdicts import Cell

METHOD, K = "ngram", 4
MAX_MODEL_LEN = 512
BUNDLED = Settings().model_root / "tiny-target"
PATIENCE_S = 30.0
QUICKLY_S = 2.0


@dataclass(slots=True)
class Pair:
    """Target-only and a drafting server; what the first answered is kept."""

    model: Path
    sockets: dict[str, str]
    prompts: Prompts
    kept: Kept = field(default_factory=Kept)
    asked: set[str] = field(default_factory=set[str])
    """The cases that target-only has answered."""

    def bench(self, case: str, *, is_reference: bool) -> Bench:
        return Bench(
            socket_path=self.sockets["target_only" if is_reference else METHOD],
            model=SERVED_MODEL_NAME,
            case=case,
            k=K,
            dtype="float32",
            vocabulary=4096,
            eos_ids=frozenset({0}),
            max_model_len=MAX_MODEL_LEN,
            prompts=self.prompts,
            kept=self.kept,
            is_reference=is_reference,
            patience_s=QUICKLY_S,
        )

    async def check(self, name: str, *mutations: str) -> Cell:
        """The case on the drafting server with the mutations, after target-only has given what it is compared with."""
        case = case_named(name)
        if name not in self.asked:
            self.asked.add(name)
            await run_case(self.bench(name, is_reference=True), case, str)
        mutate(self.model, METHOD, *mutations)
        try:
            return await run_case(self.bench(name, is_reference=False), case, str)
        finally:
            mutate(self.model, METHOD)


def case_named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@pytest.fixture(scope="module")
def pair() -> Generator[Pair]:
    with tempfile.TemporaryDirectory(prefix="pair-") as directory, ExitStack() as stack:
        root = Path(directory)
        model = make_faithful(root / "model")
        executable = make_fake_runtime(root / "runtime") / "bin" / "vllm"
        speculation = {"method": METHOD, "num_speculative_tokens": K}
        sockets = {
            "target_only": stack.enter_context(serving(executable, model, str(root / "t"))),
            METHOD: stack.enter_context(
                serving(executable, model, str(root / "n"), "--speculative-config", json.dumps(speculation))
            ),
        }
        yield Pair(model, sockets, read_prompts(model))


def make_faithful(model: Path) -> Path:
    """The bundled target's small files, and the dial that says how to serve it."""
    shutil.copytree(BUNDLED, model, ignore=shutil.ignore_patterns("*.safetensors"), dirs_exist_ok=True)
    (model / "fake.json").write_text(json.dumps({"is_faithful": True}))
    return model


@contextmanager
def serving(executable: Path, model: Path, socket_path: str, *flags: str) -> Generator[str]:
    common = ("--served-model-name", SERVED_MODEL_NAME, "--uds", socket_path, "--max-model-len", str(MAX_MODEL_LEN))
    argv = (str(executable), "serve", str(model), *common, *flags)
    with Path(f"{socket_path}.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=REPOSITORY, env={**os.environ}, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await_health(process, socket_path)
        yield socket_path
    finally:
        process.kill()
        process.wait()


def _await_health(process: subprocess.Popen[bytes], socket_path: str) -> None:
    give_up = time.monotonic() + PATIENCE_S
    transport = httpx.HTTPTransport(uds=socket_path, verify=False)
    with httpx.Client(transport=transport, base_url="http://engine") as client:
        while time.monotonic() < give_up and process.poll() is None:
            try:
                client.get("/health")
            except httpx.TransportError:
                time.sleep(0.05)
            else:
                return
    raise RuntimeError(Path(f"{socket_path}.log").read_text()[-2000:])
