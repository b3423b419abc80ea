"""The migrations make exactly what the models say, in both directions."""

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from app.db.models import Base
from tests.conftest import alembic_config, empty_database, libpq_url

CATALOGUE = """
    SELECT 'column', c.table_name, c.column_name,
           concat_ws(' ', c.data_type, c.udt_name, c.is_nullable, c.column_default)
      FROM information_schema.columns c WHERE c.table_schema = 'public'
    UNION ALL
    SELECT 'constraint', r.relname, n.conname, pg_get_constraintdef(n.oid)
      FROM pg_constraint n JOIN pg_class r ON r.oid = n.conrelid JOIN pg_namespace s ON s.oid = r.relnamespace
     WHERE s.nspname = 'public'
    UNION ALL
    SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
"""

Catalogue = set[tuple[str, ...]]


def catalogue(url: str) -> Catalogue:
    with psycopg.connect(libpq_url(url)) as connection:
        rows = connection.execute(CATALOGUE).fetchall()
    return {row for row in rows if row[1] != "alembic_version"}


@pytest.fixture
def empty_url(postgres_url: str, worker_id: str) -> str:
    return empty_database(postgres_url, f"migrations_{worker_id}")


def test_upgrade_from_empty_equals_the_models_to_the_last_constraint(empty_url: str, postgres_url: str) -> None:
    command.upgrade(alembic_config(empty_url), "head")
    modelled_url = empty_database(postgres_url, "modelled")
    engine = create_engine(modelled_url)
    Base.metadata.create_all(engine)
    engine.dispose()
    assert catalogue(empty_url) == catalogue(modelled_url)


def test_autogenerate_finds_nothing_to_do(empty_url: str) -> None:
    command.upgrade(alembic_config(empty_url), "head")
    engine = create_engine(empty_url)
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    engine.dispose()


def test_down_and_up_again_gives_the_same(empty_url: str) -> None:
    command.upgrade(alembic_config(empty_url), "head")
    before = catalogue(empty_url)
    command.downgrade(alembic_config(empty_url), "base")
    assert catalogue(empty_url) == set()
    command.upgrade(alembic_config(empty_url), "head")
    assert catalogue(empty_url) == before


def test_there_is_one_head_and_files_are_dated(empty_url: str) -> None:
    scripts = ScriptDirectory.from_config(alembic_config(empty_url))
    assert len(scripts.get_heads()) == 1
    names = [script.path.rpartition("/")[2] for script in scripts.walk_revisions()]
    assert all(name[:4].isdigit() and name[4] == name[7] == "-" for name in names)
