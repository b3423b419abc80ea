"""The models of the matrix under one model root: the bundled pair, variants of it, and untrained heads for its target.

Each is made from the bundled files alone, so that the same pair always gives the same digests.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from worker.matrix.heads import HEADS, Head, read_target
from worker.matrix.tensors import CONFIG, read_config, read_weights, write_model

TARGET, DRAFT = "tiny-target", "tiny-draft"
UNKNOWN_TARGET = "unknown-target"
WIDE_DRAFT, WIDE_UNKNOWN_DRAFT, MASKED_DRAFT = "wide-draft", "wide-unknown-draft", "masked-draft"
MTP_TARGET = "untrained-mtp-target"
EXTRA_TOKENS = 64
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")
CARD = "README.md"
STAMP = ".made-from"
_HERE = Path(__file__).parent


def make_models(bundled: Path, root: Path) -> None:
    """Write every model of the matrix under ``root`` unless they are there from the same pair and the same code."""
    made_from = _sources(bundled)
    stamp = root / STAMP
    if stamp.exists() and stamp.read_text() == made_from:
        return
    shutil.rmtree(root, ignore_errors=True)
    for alias in (TARGET, DRAFT):
        shutil.copytree(bundled / alias, root / alias, ignore=shutil.ignore_patterns(CARD))
    target = read_target(root / TARGET)
    for alias, make in HEADS.items():
        _write_head(root / alias, make(target), root / TARGET)
    _make_variants(root)
    stamp.write_text(made_from)


def _make_variants(root: Path) -> None:
    """Drafts with more tokens than the target, with a mask token, and a pair whose tokenizers have an unknown token."""
    _copy(root / TARGET, root / UNKNOWN_TARGET)
    _copy(root / DRAFT, root / MASKED_DRAFT, pard_token=read_config(root / DRAFT)["pad_token_id"])
    for alias in (WIDE_DRAFT, WIDE_UNKNOWN_DRAFT):
        _copy(root / DRAFT, root / alias)
        _widen(root / alias)
    for alias in (UNKNOWN_TARGET, WIDE_UNKNOWN_DRAFT):
        _name_unknown_token(root / alias)


def _write_head(directory: Path, head: Head, target: Path) -> None:
    write_model(directory, head.config, head.weights)
    for name in TOKENIZER_FILES if head.with_tokenizer else ():
        shutil.copyfile(target / name, directory / name)


def _copy(source: Path, directory: Path, **config: Any) -> None:
    shutil.copytree(source, directory)
    (directory / CONFIG).write_text(json.dumps({**read_config(source), **config}, indent=1, sort_keys=True) + "\n")


def _widen(directory: Path) -> None:
    """More rows of embeddings than the tokenizer has tokens, as padded vocabularies have."""
    config, weights = read_config(directory), read_weights(directory)
    name = "model.embed_tokens.weight"
    extra = np.zeros((EXTRA_TOKENS, weights[name].shape[1]), dtype=np.float32)
    weights[name] = np.concatenate([weights[name], extra])
    write_model(directory, {**config, "vocab_size": config["vocab_size"] + EXTRA_TOKENS}, weights)


def _name_unknown_token(directory: Path) -> None:
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        path = directory / name
        stated: Mapping[str, Any] = json.loads(path.read_text())
        path.write_text(json.dumps({**stated, "unk_token": stated["pad_token"]}, indent=1, sort_keys=True) + "\n")


def _sources(bundled: Path) -> str:
    """Sizes and times of the bundled files, and the code that makes the others from them."""
    files = sorted(path for alias in (TARGET, DRAFT) for path in (bundled / alias).iterdir())
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    code = [(_HERE / name).read_text() for name in ("models.py", "heads.py", "tensors.py")]
    return json.dumps([stats, code])
