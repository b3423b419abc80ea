"""Operations: what the service is doing, its metrics for Prometheus, and accelerators in and out of quarantine."""

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Request, Response
from sqlalchemy.exc import SQLAlchemyError

from app.access.gate import needs
from app.delivery.wishes import once
from app.domain.access import Scope
from app.domain.errors import IllegalTransition, NotFound
from app.errors import responses
from app.experiments.events import Streams
from app.operations.metrics import CONTENT_TYPE, exposition
from app.operations.requests import RequestMeter
from app.operations.schemas import AcceleratorRead, OperationsRead, Reason
from app.operations.service import OperationsService
from app.state import DatabaseDep, SettingsDep

router = APIRouter(prefix="/api/v1", tags=["operations"], dependencies=[needs(Scope.READ)])
scraped = APIRouter(tags=["operations"], dependencies=[needs(Scope.READ)])


def operations_service(database: DatabaseDep, settings: SettingsDep) -> OperationsService:
    """The service of this request."""
    return OperationsService(database, settings)


ServiceDep = Annotated[OperationsService, Depends(operations_service)]


@router.get("/operations")
async def read_operations(service: ServiceDep) -> OperationsRead:
    """Queues, leases, accelerators, hosts, failures and sizes, all of one moment."""
    return await service.operations()


@router.get("/accelerators")
async def list_accelerators(service: ServiceDep) -> list[AcceleratorRead]:
    """Every accelerator that a worker has published, by host and name."""
    return await service.accelerators()


@router.post(
    "/accelerators/{host}/{name:path}/quarantine",
    dependencies=[needs(Scope.ADMIN), once()],
    responses=responses(NotFound, IllegalTransition),
)
async def quarantine(host: str, name: str, body: Reason, service: ServiceDep) -> AcceleratorRead:
    """Let nothing start on an accelerator. A block that is under way there ends first."""
    return await service.quarantine(host, name, body.reason)


@router.post(
    "/accelerators/{host}/{name:path}/release",
    dependencies=[needs(Scope.ADMIN), once()],
    responses=responses(NotFound, IllegalTransition),
)
async def release(host: str, name: str, body: Reason, service: ServiceDep) -> AcceleratorRead:
    """Take an accelerator out of quarantine; the reason goes into the log."""
    return await service.release(host, name, body.reason)


@scraped.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, service: ServiceDep) -> Response:
    """The same numbers and those of this web process, for Prometheus; without a database only the latter."""
    try:
        now = await service.operations()
    except (SQLAlchemyError, OSError):
        now = None
    meter, streams = cast("RequestMeter", request.app.state.meter), cast("Streams", request.app.state.streams)
    return Response(exposition(meter.registry, now, streams.open), media_type=CONTENT_TYPE)
