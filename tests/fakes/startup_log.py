"""Lines in the shapes of vLLM 0.32's start-up log (CPU build), so that parsers meet what they will meet."""

import argparse
import os
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from tests.fakes.arguments import VERSION, non_default


class StartupLog:
    """Writes to stdout what the API server's and the engine's processes would."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self._model = arguments.model_tag
        self._pids = {"APIServer": os.getpid(), "EngineCore": os.getpid() + 1, "Worker": os.getpid() + 2}

    def line(self, process: str, where: str, message: str, level: str = "INFO") -> None:
        stamp = time.strftime("%m-%d %H:%M:%S")
        print(f"({process} pid={self._pids[process]}) {level} {stamp} [{where}] {message}", flush=True)  # noqa: T201

    def say(self, lines: Sequence[str]) -> None:
        """Warnings that a dial asks for, as the engine process would log them."""
        for text in lines:
            self.line("EngineCore", "speculative.py:1", text, "WARNING")

    def begin(self) -> None:
        art = ("       █     █     █▄   ▄█", f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {VERSION}",
               f"  █▄█▀ █     █     █     █  model   {self._model}", "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀")  # fmt: skip
        for row in ("", *art, ""):
            self.line("APIServer", "api_utils.py:347", row)
        self.line("APIServer", "api_utils.py:286", f"non-default args: {non_default(self._arguments)}")
        self.line("APIServer", "model.py:733", "Resolved architecture: LlamaForCausalLM")
        self.line("APIServer", "model.py:2152", f"Using max model len {self._arguments.max_model_len}")
        unpinned = self._arguments.async_scheduling is None
        if unpinned and (self._arguments.speculative_config or {}).get("method") == "ngram":
            text = "Async scheduling not supported with ngram-based speculative decoding and will be disabled."
            self.line("APIServer", "vllm.py:1605", text, "WARNING")

    def flood(self) -> None:
        """Write up to a gibibyte, as fast as the disk takes it."""
        threading.Thread(target=self._flood, daemon=True).start()

    def _flood(self) -> None:
        lines = ("(EngineCore) ERROR 11-30 00:00:00 [core.py:1] the same again" + "\n") * 16_384
        for _ in range(1024):
            print(lines, end="", flush=True)  # noqa: T201
            time.sleep(0.005)

    def initialise(self) -> None:
        self.line("EngineCore", "core.py:133", self._resolved())
        self.line("Worker", "cpu_model_runner.py:68", f"Starting to load model {self._model}...")

    def loaded(self) -> None:
        length = self._arguments.max_model_len
        tokens = 699_008 if self._drafting_model() is None else 599_168
        self.line("Worker", "default_loader.py:501", "Loading weights took 0.01 seconds")
        if self._drafting_model() is not None:
            self.line("Worker", "cpu_model_runner.py:75", "Loading drafter model...")
        self.line("Worker", "cpu_worker.py:260", "Explicitly set (1.0/22.71) GiB for KV cache on node 0.")
        concurrency = f"Maximum concurrency for {length:,} tokens per request: {tokens / length:.2f}x"
        self.line("EngineCore", "kv_cache_utils.py:2327", f"CPU KV cache size: {tokens:,} tokens, {concurrency}")
        took = "init engine (profile, create kv cache, warmup model) took 0.41 s"
        self.line("EngineCore", "core.py:402", took)

    def serving(self) -> None:
        where = f"unix:{self._arguments.uds}" if self._arguments.uds else f"http://{self._arguments.host}"
        self.line("APIServer", "entry.py:140", f"Starting vLLM server on {where}")
        self.line("APIServer", "launcher.py:195", "Route: /v1/completions, Methods: POST")
        for text in (f"Started server process [{os.getpid()}]", "Waiting for application startup.",
                     "Application startup complete."):  # fmt: skip
            print(f"INFO:     {text}", flush=True)  # noqa: T201

    def stopped(self) -> None:
        self.line("APIServer", "launcher.py:304", "[shutdown] API server: shutting down FastAPI HTTP server")
        for text in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
            print(f"INFO:     {text}", flush=True)  # noqa: T201

    def refuse(self, kind: str, model: str, message: str) -> None:
        """A configuration error as pydantic prints it inside vLLM's traceback."""
        _traceback("vllm/engine/arg_utils.py", 2838, "create_engine_config")
        self._print(f"pydantic_core._pydantic_core.{kind}: 1 validation error for {model}")
        self._print(
            f"  Value error, {message} [type=value_error, input_value=ArgsKwargs((), {{}}), input_type=ArgsKwargs]"
        )

    def crash(self, error: str) -> None:
        """The engine's process fails; the API server follows."""
        self.line("EngineCore", "core.py:1512", "EngineCore encountered a fatal error.", "ERROR")
        self.line("EngineCore", "core.py:1512", "Traceback (most recent call last):", "ERROR")
        self.line("EngineCore", "core.py:1512", error, "ERROR")
        echo = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
        self.line("APIServer", "async_llm.py:906", f"{echo} See stack trace (above) for the root cause.", "ERROR")

    def _print(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)  # noqa: T201

    def _drafting_model(self) -> str | None:
        return (self._arguments.speculative_config or {}).get("model")

    def _resolved(self) -> str:
        a: Any = self._arguments
        spec = a.speculative_config
        told = spec and (
            f"SpeculativeConfig(method={spec.get('method')!r}, model={spec.get('model')!r}, "
            f"num_spec_tokens={spec.get('num_speculative_tokens')})"
        )
        return (
            f"Initializing a V1 LLM engine (v{VERSION}) with config: model={self._model!r}, "
            f"speculative_config={told or None}, tokenizer={self._model!r}, dtype=torch.bfloat16, "
            f"max_seq_len={a.max_model_len}, tensor_parallel_size=1, enforce_eager={bool(a.enforce_eager)}, "
            f"seed={a.seed or 0}, served_model_name={(a.served_model_name or [self._model])[0]}, "
            f"enable_prefix_caching={a.enable_prefix_caching is not False}"
        )


def _traceback(file: str, line: int, function: str) -> None:
    print("Traceback (most recent call last):", file=sys.stderr)  # noqa: T201
    print(f'  File "/opt/runtime/lib/python3.11/site-packages/{file}", line {line}, in {function}', file=sys.stderr)  # noqa: T201
