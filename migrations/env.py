"""Run migrations: bounded in time, one runner at once, on the database of the settings.

A caller may pass a URL in ``config.attributes["url"]`` (tests do); otherwise the environment decides.
"""

from alembic import context
from sqlalchemy import NullPool, create_engine, text

from app.db import models
from app.settings import Settings

LIMITS = "SET LOCAL lock_timeout = '4s'; SET LOCAL statement_timeout = '60s'"
LOCK = text("SELECT pg_advisory_xact_lock(hashtext('verdraft-alembic'))")


def run() -> None:
    """Upgrade or downgrade in one transaction, under an advisory lock."""
    url = context.config.attributes.get("url") or Settings().database_url.get_secret_value()
    engine = create_engine(url, poolclass=NullPool)
    with engine.connect() as connection:
        context.configure(connection=connection, target_metadata=models.Base.metadata, compare_type=True)
        with context.begin_transaction():
            connection.execute(LOCK)  # waits without limit: another runner may be at work
            connection.execute(text(LIMITS))
            context.run_migrations()


if context.is_offline_mode():
    raise SystemExit("offline mode is not offered: run against a database, so that its lock and limits hold")
run()
