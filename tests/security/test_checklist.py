"""Every threat names tests that are there, and the page is what the list says."""

import ast
from functools import cache

import pytest

from app.settings import PROJECT_ROOT
from tests.domain.bad_manifests import BAD
from tests.security.checklist import ITEMS, Item, page


@cache
def functions(path: str) -> set[str]:
    tree = ast.parse((PROJECT_ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_item_is_there_once() -> None:
    assert [item.number for item in ITEMS] == list(range(1, 38))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.number))
def test_every_item_has_tests_that_exist(item: Item) -> None:
    assert item.tests or item.left, "it must have a test, or say that it is open"
    for test in item.tests:
        name, _, case = test.partition("[")
        path, _, function = name.partition("::")
        assert function in functions(path), test
        assert not case or case.removesuffix("]") in BAD, test


def test_the_page_says_what_the_list_says() -> None:
    assert (PROJECT_ROOT / "docs" / "threat-model.md").read_text() == page(), "run python -m tests.security.checklist"
