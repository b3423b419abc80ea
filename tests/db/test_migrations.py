"""The migrations make exactly what the models say, in both directions."""

from typing import Any
from uuid import UUID

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from app.db.models import Base
from app.db.partitions import PARTITIONED, partition_name
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


BEFORE_PARTITIONS = "0005"
ROWS = {
    "observation": "SELECT experiment, run_id, request_id, outcome, due_ns, chunk_ns, text FROM observation ORDER BY 3",
    "series": "SELECT id, run_id, name, labels, at_ns, values FROM series ORDER BY 3",
}
"""In words that both sides of the migration understand."""


FILL = """
    INSERT INTO experiment (digest, name, state, manifest, version) VALUES (%(e)s, 'x', 'RUNNING', '{}', 1);
    INSERT INTO block (id, experiment_id, index, state, attempt, fence, cancel_requested, accelerator)
        VALUES (%(block)s, %(e)s, 0, 'LEASED', 1, 1, false, 'cpu');
    INSERT INTO session (id, block_id, fence, attempt, arm, position, state, argv, resolved_config, memory, warnings,
                         flags_left_out)
        VALUES (%(session)s, %(block)s, 1, 1, 'target-only', 0, 'MEASURING', '{}', '{}', '{}', '[]', '{}');
    INSERT INTO run (id, session_id, fence, workload, load, attempt, state)
        VALUES (%(run)s, %(session)s, 1, 'tasks', 'low', 1, 'MEASURING');
    INSERT INTO observation (experiment, run_id, request_id, outcome, due_ns, chunk_ns, chunk_tokens, token_ids, text,
                             reasoning, tool_calls, logprobs)
        SELECT %(e)s, %(run)s, 'r-' || %(e)s || n, 'stall', n, '{1,2}', '{1,1}', '{5,6}', 'ab', '', '', '{}'
        FROM generate_series(1, 2) n;
    INSERT INTO series (id, run_id, name, labels, at_ns, values)
        VALUES (%(series)s, %(run)s, 'vllm:x' || %(e)s, '{"reason": "capacity"}', '{0,5}', '{0.5,1}')
"""


def fill(connection: psycopg.Connection) -> None:
    """Two experiments of the time before partitions, each with a run, two observations and a series."""
    for number, experiment in enumerate(("a" * 64, "b" * 64)):
        ids = [UUID(int=10 * number + place) for place in range(4)]
        names = dict(zip(("block", "session", "run", "series"), ids, strict=True)) | {"e": experiment}
        for statement in FILL.split(";"):
            connection.execute(statement.encode(), names)


def rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    with psycopg.connect(libpq_url(url)) as connection:
        return {table: connection.execute(query.encode()).fetchall() for table, query in ROWS.items()}


def test_every_observation_and_series_moves_into_its_partition_and_back(empty_url: str) -> None:
    command.upgrade(alembic_config(empty_url), BEFORE_PARTITIONS)
    with psycopg.connect(libpq_url(empty_url)) as connection:
        fill(connection)
    before = rows(empty_url)
    assert {table: len(found) for table, found in before.items()} == {"observation": 4, "series": 2}
    command.upgrade(alembic_config(empty_url), "0006")
    assert rows(empty_url) == before
    with psycopg.connect(libpq_url(empty_url)) as connection:
        for table in PARTITIONED:
            place = f"SELECT DISTINCT experiment FROM {partition_name(table, 'a' * 64)}"  # noqa: S608  (our names)
            assert connection.execute(place.encode()).fetchall() == [("a" * 64,)]
        connection.execute(
            "INSERT INTO series SELECT experiment, gen_random_uuid(), run_id, name, 1, labels, '{7}', '{2}' FROM series"
        )
    command.downgrade(alembic_config(empty_url), BEFORE_PARTITIONS)
    after = rows(empty_url)
    assert after["observation"] == before["observation"]
    assert after["series"] == [(*row[:4], [*row[4], 7], [*row[5], 2.0]) for row in before["series"]]


def test_there_is_one_head_and_files_are_dated(empty_url: str) -> None:
    scripts = ScriptDirectory.from_config(alembic_config(empty_url))
    assert len(scripts.get_heads()) == 1
    names = [script.path.rpartition("/")[2] for script in scripts.walk_revisions()]
    assert all(name[:4].isdigit() and name[4] == name[7] == "-" for name in names)
