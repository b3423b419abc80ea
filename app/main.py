"""The web process: routes and pages around one database. It never imports the worker or touches an accelerator."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.routing import APIRoute
from sqlalchemy import text

from app import errors
from app.access.gate import Acting, require_declared
from app.access.routes import router as access
from app.across.routes import router as across
from app.boundary import Boundary, require_access
from app.cases.filling.background import Fillings
from app.cases.routes import router as cases
from app.comparisons.cache import ReportCache
from app.comparisons.routes import router as comparisons
from app.comparisons.service import ComparisonService
from app.db.session import Database
from app.delivery import middleware as delivery
from app.evidence.routes import router as evidence
from app.experiments.events import Streams
from app.experiments.routes import router as experiments
from app.formats.routes import router as formats
from app.interop.routes import router as interop
from app.leases.reaper import reaping
from app.logging import configure
from app.openapi import document as openapi
from app.operations.requests import RequestMeter, Requests
from app.operations.routes import router as operations
from app.operations.routes import scraped
from app.pages.login import router as login
from app.pages.routes import mount_static
from app.pages.routes import router as pages
from app.preflight.routes import router as preflight
from app.retention.routes import router as retention
from app.runs.routes import router as runs
from app.settings import Settings
from app.state import DatabaseDep
from app.webhooks.delivering import Deliverer, delivering
from app.webhooks.routes import router as webhooks

DESCRIPTION = "Decides, with evidence a sceptic can check, whether speculative decoding helps a workload."
COMPRESS_FROM = 1024
COMPRESS_LEVEL = 3
"""A page waits for this; the highest level takes ten times as long and saves a few percent."""


def create_app(settings: Settings | None = None) -> FastAPI:
    """The application; without ``settings`` they come from the environment. Connects on first use."""
    chosen = settings or Settings()
    require_access(chosen.access, chosen.host)
    database = Database(chosen.database_url.get_secret_value())

    reports, fillings = ReportCache(), Fillings()

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        configure(chosen.log_level)
        deliverer = Deliverer(database, chosen, ComparisonService(database, reports, chosen))
        async with reaping(database, chosen), delivering(deliverer):
            yield
        await reports.close()
        await fillings.close()
        await database.dispose()

    # The interactive docs would load scripts from another host.
    app = FastAPI(
        title="Verdraft",
        version="0.1.0",
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=_operation_id,
    )
    app.state.settings, app.state.database = chosen, database
    app.state.streams, app.state.reports, app.state.meter = Streams(database), reports, RequestMeter()
    app.state.fillings = fillings
    errors.install(app)
    delivery.install(app, database, COMPRESS_FROM)
    app.add_middleware(GZipMiddleware, minimum_size=COMPRESS_FROM, compresslevel=COMPRESS_LEVEL)
    app.add_middleware(Acting)
    app.add_middleware(Boundary, host=chosen.host, public=chosen.public_url, everybody=chosen.access == "required")
    app.add_middleware(Requests, meter=app.state.meter)
    for router in (
        access,
        experiments,
        retention,
        preflight,
        runs,
        evidence,
        comparisons,
        cases,
        across,
        operations,
        scraped,
        formats,
        interop,
        webhooks,
    ):
        app.include_router(router, responses=errors.responses())
    app.add_api_route("/healthz", health, tags=["health"])
    app.include_router(login)
    app.include_router(pages)
    mount_static(app)
    require_declared(app)
    openapi.install(app)
    return app


def _operation_id(route: APIRoute) -> str:
    """The function's name: the method of the same name in clients/python."""
    return route.name


async def health(database: DatabaseDep) -> dict[str, str]:
    """Whether this process reaches its database."""
    async with database.reader() as session:
        await session.execute(text("SELECT 1"))
    return {"status": "ok"}
