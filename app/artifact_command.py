"""``verdraft artifacts``: what an operator does to the store of files, on a host that reaches it and the database."""

import asyncio

import typer

from app.retention.schemas import SweptRead
from app.terminal import AsJson, refusals, tell

app = typer.Typer(no_args_is_help=True, help="Look after the store of logs and raw files.")


@app.callback()
def artifacts() -> None:
    """A group, although it has one command yet."""


@app.command()
def sweep(*, as_json: AsJson = False) -> None:
    """Remove files, tables and scratch directories that nothing refers to any more; safe while everything runs."""
    with refusals(as_json=as_json):
        swept = asyncio.run(_sweep())
    tell(swept.model_dump(), as_json=as_json)


async def _sweep() -> SweptRead:
    from app.db.session import Database  # noqa: PLC0415  (other commands start without it)
    from app.retention.service import RetentionService  # noqa: PLC0415  (as above)
    from app.settings import Settings  # noqa: PLC0415  (as above)

    settings = Settings()
    database = Database(settings.database_url.get_secret_value(), pooled=False)
    try:
        return await RetentionService(database, settings).sweep()
    finally:
        await database.dispose()
