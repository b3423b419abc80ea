"""What a request may depend on: the settings and database that ``create_app`` was given."""

from typing import Annotated, cast

from fastapi import Depends, Request

from app.db.session import Database
from app.settings import Settings


def settings_of(request: Request) -> Settings:
    """The settings of this application."""
    return cast("Settings", request.app.state.settings)


def database_of(request: Request) -> Database:
    """The database of this application."""
    return cast("Database", request.app.state.database)


SettingsDep = Annotated[Settings, Depends(settings_of)]
DatabaseDep = Annotated[Database, Depends(database_of)]
