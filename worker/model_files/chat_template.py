"""The chat template that transformers would use, as a digest: its text never leaves the host.

Files of their own come before the entry in ``tokenizer_config.json``; a processor's file comes between.
"""

from collections.abc import Iterator

from app.domain.canonical import canonical_json, digest
from worker.model_files.tokenizer import TOKENIZER_CONFIG
from worker.model_files.tree import ModelRefused, Tree, is_object

TEMPLATE = "chat_template.jinja"
FURTHER_TEMPLATES = "additional_chat_templates/"
PROCESSOR_TEMPLATE = "chat_template.json"
PROCESSORS = ("processor_config.json", "preprocessor_config.json")
TEMPLATE_BYTES_MAX = 64 * 1024
DEFAULT = "default"


def chat_template_digest(tree: Tree) -> str | None:
    """The sha256 of the one template's UTF-8 text; of several, over name and text of each. ``None`` without one.

    Raises ``ModelRefused`` for a template that is too large or of no known form.
    """
    templates = dict(_from_files(tree)) or dict(_from_processor(tree)) or dict(_from_config(tree))
    if not templates:
        return None
    if set(templates) == {DEFAULT}:
        return digest(templates[DEFAULT].encode())
    return digest(canonical_json(dict(templates)))


def _from_files(tree: Tree) -> Iterator[tuple[str, str]]:
    if TEMPLATE in tree:
        yield DEFAULT, tree.text(TEMPLATE, limit=TEMPLATE_BYTES_MAX)
    for entry in tree.entries:
        if entry.name.startswith(FURTHER_TEMPLATES) and entry.name.endswith(".jinja"):
            name = entry.name.removeprefix(FURTHER_TEMPLATES).removesuffix(".jinja")
            yield name, tree.text(entry.name, limit=TEMPLATE_BYTES_MAX)


def _from_processor(tree: Tree) -> Iterator[tuple[str, str]]:
    if PROCESSOR_TEMPLATE in tree and any(name in tree for name in PROCESSORS):
        yield from _templates(PROCESSOR_TEMPLATE, tree.json(PROCESSOR_TEMPLATE).get("chat_template"))


def _from_config(tree: Tree) -> Iterator[tuple[str, str]]:
    yield from _templates(TOKENIZER_CONFIG, tree.json_or_empty(TOKENIZER_CONFIG).get("chat_template"))


def _templates(file: str, stated: object) -> Iterator[tuple[str, str]]:
    """One template, or a list of named ones."""
    named = stated if isinstance(stated, list) else [{"name": DEFAULT, "template": stated}]
    for entry in named if stated is not None else []:
        name, text = (entry.get("name"), entry.get("template")) if is_object(entry) else (None, None)
        if not isinstance(name, str) or not isinstance(text, str):
            raise ModelRefused.of(file, "has a chat template of no known form", "restore the file")
        yield name, _bounded(file, text)


def _bounded(file: str, text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ModelRefused.of(file, "has a chat template that is not Unicode", "restore the file") from error
    if size > TEMPLATE_BYTES_MAX:
        message = f"has a chat template of {size:,} bytes, more than {TEMPLATE_BYTES_MAX:,}"
        raise ModelRefused.of(file, message, "check where it comes from")
    return text
