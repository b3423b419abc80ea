"""``.env.example`` and the settings say the same."""

from pathlib import Path

from pydantic import SecretStr

from app.settings import PROJECT_ROOT, Settings


def _listed() -> dict[str, str]:
    lines = (PROJECT_ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def _text(default: object) -> str:
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if isinstance(default, Path):
        return str(default.relative_to(PROJECT_ROOT))
    return str(default)


def test_every_setting_is_listed_with_its_default() -> None:
    assert _listed() == {f"VERDRAFT_{name.upper()}": _text(f.default) for name, f in Settings.model_fields.items()}


def test_every_setting_is_explained() -> None:
    example = (PROJECT_ROOT / ".env.example").read_text()
    for name, field in Settings.model_fields.items():
        assert f"# {field.description}\nVERDRAFT_{name.upper()}=" in example
