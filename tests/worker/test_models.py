"""A name stands for one content: digests, references, and which directories are offered."""

import hashlib
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue
from structlog.testing import capture_logs

from app.domain.canonical import canonical_json
from app.domain.errors import DomainError
from app.settings import PROJECT_ROOT
from tests.worker.model_directory import make_model, put
from worker.models import local_models, model_digest, resolve_model

BUNDLED = {
    "tiny-draft": "13df114acb7e1e899835ad8cf8e4af35a983896d281cd9c557bb85dc4239ee97",
    "tiny-target": "dcbf9d0942525a3eae2a5192c76f6fcdb43ad89f2a086193509d02363bc49740",
}
PARTS = st.text("abcde-_.", min_size=1, max_size=6).filter(lambda part: part.strip("."))
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
FILES = st.dictionaries(NAMES, st.binary(max_size=40), min_size=1, max_size=6).filter(
    lambda files: not any(other.startswith(f"{name}/") for name in files for other in files)
)


@pytest.fixture
def model_root(tmp_path: Path) -> Path:
    """A model root with one model."""
    return make_model(tmp_path / "models" / "tiny").parent


def digest_of(files: dict[str, bytes]) -> str:
    """Of a directory with these files, written in this order."""
    with tempfile.TemporaryDirectory() as directory:
        for name, content in files.items():
            put(Path(directory) / name, content)
        return model_digest(Path(directory))


@settings(max_examples=40, deadline=None)
@given(FILES, st.data())
def test_the_order_of_files_does_not_matter(files: dict[str, bytes], data: st.DataObject) -> None:
    names = data.draw(st.permutations(sorted(files)))
    assert digest_of({name: files[name] for name in names}) == digest_of(files)


@settings(max_examples=40, deadline=None)
@given(FILES, st.data(), st.sampled_from(["flip", "insert", "remove"]))
def test_every_byte_is_the_model(files: dict[str, bytes], data: st.DataObject, change: str) -> None:
    name = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[name])
    place = data.draw(st.integers(0, max(len(content) - 1, 0)))
    if change == "insert" or not content:
        content.insert(place, 7)
    elif change == "flip":
        content[place] ^= 1
    else:
        del content[place]
    assert digest_of(files | {name: bytes(content)}) != digest_of(files)


@settings(max_examples=40, deadline=None)
@given(FILES, NAMES)
def test_every_name_is_the_model(files: dict[str, bytes], name: str) -> None:
    assume(not any(f == name or f.startswith(f"{name}/") or name.startswith(f"{f}/") for f in files))
    renamed = {name if n == min(files) else n: content for n, content in files.items()}
    assert len({digest_of(files), digest_of(files | {name: b""}), digest_of(renamed)}) == 3


@settings(max_examples=40, deadline=None)
@given(FILES, st.binary(max_size=40), st.sampled_from(["README.md", "part/README.md"]))
def test_the_card_is_not_the_model(files: dict[str, bytes], card: bytes, name: str) -> None:
    assume("part" not in files)
    assert digest_of(files | {name: card}) == digest_of(files)


def test_the_digest_is_what_its_definition_says(tmp_path: Path) -> None:
    put(tmp_path / "b" / "c.json", b"{}")
    put(tmp_path / "a", b"")
    pairs: JsonValue = [
        [name, hashlib.sha256(content).hexdigest()] for name, content in (("a", b""), ("b/c.json", b"{}"))
    ]
    assert model_digest(tmp_path) == hashlib.sha256(canonical_json(pairs)).hexdigest()


@pytest.mark.parametrize(("alias", "digest"), BUNDLED.items())
def test_the_bundled_models_are_those_of_earlier_manifests(alias: str, digest: str) -> None:
    assert model_digest(PROJECT_ROOT / "models" / alias) == digest


def test_a_local_reference_resolves_only_to_its_content(model_root: Path) -> None:
    digest = model_digest(model_root / "tiny")
    assert resolve_model(f"local:tiny@sha256:{digest}", model_root) == model_root / "tiny"
    put(model_root / "tiny" / "config.json", "[]")
    with pytest.raises(DomainError, match=f"not sha256:{digest}") as caught:
        resolve_model(f"local:tiny@sha256:{digest}", model_root, field="target_model")
    assert caught.value.problems[0].field == "target_model"


def test_a_missing_model_names_those_that_are_here(model_root: Path) -> None:
    with pytest.raises(DomainError, match=r"no local model big \(here: tiny\)"):
        resolve_model(f"local:big@sha256:{'0' * 64}", model_root)


@pytest.mark.parametrize(
    "ref",
    [
        "someone/model@main",
        "someone/model@refs/pr/1",
        f"someone/model@{'0' * 39}",
        f"someone/model@{'0' * 41}",
        f"someone/model@{'0' * 40}\n",
        "someone/model@0123abc",
        "someone/model",
        "tiny",
        f"local:../tiny@sha256:{'0' * 64}",
        f"local:tiny@sha256:{'0' * 63}",
        f"local:tiny@{'0' * 64}",
        "/models/tiny",
    ],
)
def test_what_can_change_is_no_reference(model_root: Path, ref: str) -> None:
    with pytest.raises(DomainError, match="full commit or a digest") as caught:
        resolve_model(ref, model_root, field="target_model")
    [problem] = caught.value.problems
    assert problem.field == "target_model"
    assert "verdraft model list" in problem.remedy


def test_a_refusal_names_the_field_the_model_and_the_file(model_root: Path) -> None:
    put(model_root / "tiny" / "model.safetensors", b"\x01")
    ref = f"local:tiny@sha256:{model_digest(model_root / 'tiny')}"
    with pytest.raises(DomainError) as caught:
        resolve_model(ref, model_root, field="arms[1].draft_or_speculator")
    [problem] = caught.value.problems
    assert problem.field == "arms[1].draft_or_speculator"
    assert problem.message.startswith("local model tiny: model.safetensors claims a header of")


def test_a_broken_directory_hides_no_other_and_its_reason_is_logged(model_root: Path) -> None:
    make_model(model_root / "cut", config='{"model_type"')
    make_model(model_root / "Upper Case")
    put(model_root / "empty" / "notes.txt", "no model")
    put(model_root / ".cache" / "config.json", "{}")
    put(model_root / "a-file", "no directory")
    with capture_logs() as logs:
        facts = local_models(model_root)
        local_models(model_root)
    assert [model.alias for model in facts] == ["tiny"]
    reasons = {entry["model"]: entry["reason"] for entry in logs}
    assert sorted(entry["model"] for entry in logs) == ["Upper Case", "cut", "empty"]
    assert "config.json: is not JSON" in reasons["cut"]
    assert "config.json: is missing" in reasons["empty"]


def test_an_alias_may_lead_to_a_directory_elsewhere(model_root: Path, tmp_path: Path) -> None:
    elsewhere = make_model(tmp_path / "disk" / "big")
    (model_root / "linked").symlink_to(elsewhere)
    ref = f"local:linked@sha256:{model_digest(elsewhere)}"
    assert resolve_model(ref, model_root) == model_root / "linked"
    assert ref in [model.ref for model in local_models(model_root)]


def test_a_model_root_that_is_not_there_offers_nothing(tmp_path: Path) -> None:
    assert local_models(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(
    ("link", "target", "complaint"),
    [
        ("stolen.json", "/etc/hostname", "stolen.json is a link that leaves the directory"),
        ("up.json", "../other.json", "up.json is a link that leaves the directory"),
        ("gone.json", "nothing.json", "gone.json is a link to nothing"),
        ("loop.json", "loop.json", "loop.json is a link to nothing"),
        ("sub", ".", "sub is not a regular file"),
    ],
)
def test_a_link_must_stay_inside(model_root: Path, link: str, target: str, complaint: str) -> None:
    put(model_root / "other.json", "{}")
    (model_root / "tiny" / link).symlink_to(target)
    with pytest.raises(DomainError, match=complaint):
        resolve_model(f"local:tiny@sha256:{'0' * 64}", model_root)


def test_a_link_inside_counts_as_its_content(model_root: Path) -> None:
    put(model_root / "tiny" / "copy.json", "{}")
    copied = model_digest(model_root / "tiny")
    (model_root / "tiny" / "copy.json").unlink()
    put(model_root / "tiny" / "z.json", "{}")
    (model_root / "tiny" / "copy.json").symlink_to("z.json")
    linked = model_digest(model_root / "tiny")
    (model_root / "tiny" / "copy.json").unlink()
    put(model_root / "tiny" / "copy.json", "{}")
    assert linked == model_digest(model_root / "tiny") != copied


def test_what_the_digest_could_not_cover_is_refused(model_root: Path) -> None:
    os.mkfifo(model_root / "tiny" / "pipe")
    with pytest.raises(DomainError, match="pipe: is not a regular file"):
        model_digest(model_root / "tiny")
    (model_root / "tiny" / "pipe").unlink()
    put(model_root / "tiny" / "/".join("d" * 17) / "deep", "")
    with pytest.raises(DomainError, match="more than 16 levels deep"):
        model_digest(model_root / "tiny")


def test_a_name_that_is_not_utf8_is_refused(model_root: Path) -> None:
    (model_root / "tiny" / os.fsdecode(b"caf\xe9")).touch()
    with pytest.raises(DomainError, match="not UTF-8"):
        model_digest(model_root / "tiny")
