from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from app.cli import app

Verdraft = Callable[..., Result]


@pytest.fixture
def verdraft() -> Verdraft:
    """Run the command in this process: ``verdraft("list", "--url", url)``."""
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])
