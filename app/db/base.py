"""What every table shares: constraint names by convention, closed sets of words as checked text.

Rows have no relationships: a repository states each join, so nothing is ever loaded by accident.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import JsonValue
from sqlalchemy import BigInteger, DateTime, Enum, LargeBinary, MetaData, Text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase
from sqlalchemy.types import TypeDecorator

NAMING_CONVENTION = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

Json = dict[str, JsonValue]
Integers = ARRAY(BigInteger)


class ExactText(TypeDecorator[str]):
    """Generated text, kept exactly: it may hold NUL, which Postgres text cannot."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """The bytes that are stored."""
        del dialect
        return None if value is None else value.encode()

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """The text that was stored."""
        del dialect
        return None if value is None else bytes(value).decode()


def word(words: type[StrEnum], name: str) -> Enum:
    """A column type for a closed set of words: text with a CHECK, so that a new word is a small migration."""
    return Enum(
        words,
        name=name,
        native_enum=False,
        create_constraint=True,
        length=32,
        values_callable=lambda members: [str(m.value) for m in members],
    )


class Base(DeclarativeBase):
    """Parent of every row."""

    metadata = MetaData(naming_convention=NAMING_CONVENTION)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: Text,
        int: BigInteger,
        datetime: DateTime(timezone=True),
        Json: JSONB(none_as_null=True),
        list[Json]: JSONB(none_as_null=True),
        list[int]: Integers,
        list[str]: ARRAY(Text),
    }
