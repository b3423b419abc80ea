"""The words of the docs are names in the code, and what the docs point to is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
PAGES = (ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
CODE = sorted(set(re.findall(r"\| `((?:app|worker)\.[\w.]+)` \|$", GLOSSARY, re.MULTILINE)))


@pytest.mark.parametrize("path", CODE)
def test_a_word_of_the_glossary_is_a_name_in_the_code(path: str) -> None:
    try:
        importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name), path


def test_every_row_of_the_glossary_names_its_code() -> None:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| ")][1:]
    assert len(CODE) > 20
    assert all(re.search(r"`(app|worker)\.[\w.]+` \|$", row) for row in rows)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_points_to_is_there(page: Path) -> None:
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    paths = re.findall(r"`((?:app|worker|tests|docs|frontend|scripts|examples|schemas)/[\w./-]*)`", text)
    missing = [link for link in links if not (page.parent / link).exists()]
    missing += [path for path in paths if not (ROOT / path).exists()]
    assert not missing
