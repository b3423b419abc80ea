"""A backup brings everything back, or says by name what is wrong with it and changes nothing."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg
import pytest
from pydantic import SecretStr
from typer.testing import CliRunner, Result

from app import backup as backups
from app import embedded
from app.artifacts.store import ArtifactStore
from app.backup import DUMP, INDEX, BackupIndex, BackupRefused, backup, restore
from app.db.session import Database
from app.evidence.repository import EvidenceRepository
from app.experiments.repository import ExperimentRepository
from app.main import create_app
from app.runs.repository import SessionRepository
from app.settings import Settings
from tests.conftest import client_of, empty_database, libpq_url
from tests.factories import make_manifest, make_observation, make_trace
from tests.factories_leases import claim_block

PROMPTS = {"project.key": b"5ec2e7" * 16, f"{'a' * 64}.jsonl": b'{"prompt":"private"}\n'}


@pytest.fixture
async def measured(database: Database, settings: Settings, tmp_path: Path) -> str:
    """An experiment with one observed run and its log, and prompts of privacy mode; its digest."""
    log = tmp_path / "log"
    log.write_bytes(b"INFO ready\n")
    artifact = ArtifactStore(settings.artifacts).put(log)
    manifest = make_manifest()
    async with database.transaction() as session:
        evidence, sessions = EvidenceRepository(session), SessionRepository(session)
        await evidence.store_trace(make_trace())
        await ExperimentRepository(session).add(manifest)
        await ExperimentRepository(session).shelve(manifest.digest, ["kept"], archived=True)
        block = await claim_block(session, "worker-1")
        assert block is not None
        session_id = await sessions.start_session(block.id, block.fence, "target-only", 0)
        await evidence.record_artifact(
            "engine-log", artifact.sha256, artifact.path, session_id, None, artifact.size_bytes
        )
        run_id = await sessions.start_run(session_id, block.fence, "tasks", "low")
        await evidence.record_observations(run_id, block.fence, [make_observation()])
    settings.prompt_root.mkdir()
    for name, content in PROMPTS.items():
        (settings.prompt_root / name).write_bytes(content)
    return manifest.digest


@pytest.fixture
def elsewhere(postgres_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """Settings of another home and another database, both empty."""
    url = empty_database(postgres_url, f"restored_{abs(hash(request.node.nodeid))}")
    return Settings(home=tmp_path / "elsewhere", database_url=SecretStr(url), runtime_root=tmp_path / "runtimes")


@pytest.fixture
def archive(measured: str, settings: Settings, tmp_path: Path) -> Path:
    backup(settings, tmp_path / "backup.tar")
    return tmp_path / "backup.tar"


async def _shown(settings: Settings, experiment: str) -> list[bytes]:
    """What a reader is shown: the report, the observations and the log."""
    async with client_of(create_app(settings), settings) as client:
        path = f"/api/v1/experiments/{experiment}"
        run = (await client.get(f"{path}/runs")).json()[0]
        paths = (
            "/api/v1/experiments?tag=kept&archived=only",
            f"{path}/report",
            f"/api/v1/runs/{run['id']}/observations",
            f"/api/v1/sessions/{run['session_id']}/log",
        )
        answers = [await client.get(p) for p in paths]
    assert {answer.status_code for answer in answers} == {httpx.codes.OK}
    assert answers[0].json()["total"] == 1
    return [answer.content for answer in answers]


def _tables(settings: Settings) -> int:
    with psycopg.connect(libpq_url(settings.database_url.get_secret_value())) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert found is not None
    return found[0]


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {entry.name: content.read() for entry in tar if (content := tar.extractfile(entry))}


def _write(archive: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(archive, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


async def test_everything_comes_back(measured: str, settings: Settings, elsewhere: Settings, archive: Path) -> None:
    before = await _shown(settings, measured)

    restore(elsewhere, archive)

    assert await _shown(elsewhere, measured) == before
    assert {path.name: path.read_bytes() for path in elsewhere.prompt_root.iterdir()} == PROMPTS
    assert {path.stat().st_mode & 0o777 for path in elsewhere.prompt_root.iterdir()} == {0o600}


def test_a_backup_is_private_and_complete_where_it_is(settings: Settings, archive: Path) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600
    index = BackupIndex.model_validate_json(_members(archive)[INDEX])
    assert [member.path for member in index.members] == list(_members(archive))[1:]
    with pytest.raises(BackupRefused, match="exists"):
        backup(settings, archive)


def test_files_that_are_being_written_stay_out(measured: str, settings: Settings, tmp_path: Path) -> None:
    unfinished = next(settings.artifact_root.iterdir()) / "tmp12345678"
    unfinished.write_bytes(b"half")

    index = backup(settings, tmp_path / "backup.tar")

    assert sorted(member.path.partition("/")[0] for member in index.members) == [
        "artifacts",
        DUMP,
        "prompts",
        "prompts",
    ]


def test_a_database_that_has_tables_is_refused_with_a_remedy(settings: Settings, archive: Path) -> None:
    before = _tables(settings)
    with pytest.raises(BackupRefused, match=r"tables already.*create an empty one"):
        restore(settings, archive)
    assert _tables(settings) == before


def _flip(members: dict[str, bytes], name: str) -> None:
    members[name] = bytes([members[name][0] ^ 1]) + members[name][1:]


def _artifact(members: dict[str, bytes]) -> str:
    return next(name for name in members if name.startswith("artifacts/"))


def _lose(members: dict[str, bytes]) -> str:
    name = _artifact(members)
    del members[name]
    return name


def _damage(members: dict[str, bytes]) -> str:
    _flip(members, _artifact(members))
    return _artifact(members)


def _damage_dump(members: dict[str, bytes]) -> str:
    _flip(members, DUMP)
    return DUMP


def _smuggle(members: dict[str, bytes]) -> str:
    members["../outside"] = b"x"
    return "../outside"


def _begin_otherwise(members: dict[str, bytes]) -> str:
    del members[INDEX]
    return "index.json"


@pytest.mark.parametrize("spoil", [_lose, _damage, _damage_dump, _smuggle, _begin_otherwise])
def test_a_damaged_backup_is_refused_by_name_and_changes_nothing(
    elsewhere: Settings, archive: Path, spoil: Callable[[dict[str, bytes]], str]
) -> None:
    members = _members(archive)
    name = spoil(members)
    _write(archive, members)

    with pytest.raises(BackupRefused) as refused:
        restore(elsewhere, archive)

    assert name in str(refused.value)
    assert _tables(elsewhere) == 0
    assert list(elsewhere.home.iterdir()) == []


def test_a_cut_backup_is_refused(elsewhere: Settings, archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:-20_000])
    with pytest.raises(BackupRefused, match=r"backup\.tar|is missing|sha256"):
        restore(elsewhere, archive)
    assert _tables(elsewhere) == 0


def test_an_artifact_that_the_disk_has_damaged_is_named(measured: str, settings: Settings, tmp_path: Path) -> None:
    stored = next(settings.artifact_root.glob("*/*"))
    stored.write_bytes(b"rotten")
    with pytest.raises(BackupRefused, match=stored.name):
        backup(settings, tmp_path / "backup.tar")
    assert not (tmp_path / "backup.tar").exists()


def test_another_key_is_not_overwritten(elsewhere: Settings, archive: Path) -> None:
    elsewhere.prompt_root.mkdir(parents=True)
    (elsewhere.prompt_root / "project.key").write_bytes(b"another")
    with pytest.raises(BackupRefused, match=r"prompts/project\.key: another file"):
        restore(elsewhere, archive)
    assert (elsewhere.prompt_root / "project.key").read_bytes() == b"another"
    assert _tables(elsewhere) == 0


def test_a_failed_restore_leaves_no_table_and_can_be_repeated(elsewhere: Settings, archive: Path) -> None:
    with psycopg.connect(libpq_url(elsewhere.database_url.get_secret_value())) as connection:
        connection.execute(
            "CREATE FUNCTION observation() RETURNS int LANGUAGE sql RETURN 1; CREATE TYPE run AS (a int)"
        )
    with pytest.raises(BackupRefused, match="pg_restore failed"):
        restore(elsewhere, archive)
    assert _tables(elsewhere) == 0
    with psycopg.connect(libpq_url(elsewhere.database_url.get_secret_value())) as connection:
        connection.execute("DROP TYPE run")

    restore(elsewhere, archive)

    assert _tables(elsewhere) > 0


def test_the_embedded_database_is_started_for_it_and_stopped_again(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VERDRAFT_DATABASE_URL", raising=False)
    embedded_only = Settings(home=tmp_path / "embedded")

    restore(embedded_only, archive)
    again = backup(embedded_only, tmp_path / "again.tar")

    assert not embedded.postgres_runs(embedded_only.home)
    assert len(again.members) == len(_members(archive)) - 1


def test_the_commands_take_a_pipe(
    measured: str, settings: Settings, elsewhere: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _command(settings, monkeypatch, ["backup", "-"])
    restored = _command(elsewhere, monkeypatch, ["restore", "-"], made.stdout_bytes)

    assert (made.exit_code, restored.exit_code) == (0, 0)
    assert "alembic upgrade head" in restored.stdout
    refused = _command(elsewhere, monkeypatch, ["restore", "-"], made.stdout_bytes)
    assert refused.exit_code == 1
    assert "tables already" in refused.stderr


def _command(settings: Settings, monkeypatch: pytest.MonkeyPatch, argv: list[str], given: bytes = b"") -> Result:
    monkeypatch.setenv("VERDRAFT_HOME", str(settings.home))
    monkeypatch.setenv("VERDRAFT_DATABASE_URL", settings.database_url.get_secret_value())
    return CliRunner().invoke(backups.app, argv, input=given)
