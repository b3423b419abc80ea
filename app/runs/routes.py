"""The sessions and runs of an experiment."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends

from app.access.gate import needs
from app.delivery.wishes import sparse
from app.domain.access import Scope
from app.domain.errors import NotFound
from app.errors import responses
from app.runs.schemas import RunRead, SessionRead
from app.runs.service import RunService
from app.state import DatabaseDep

router = APIRouter(prefix="/api/v1", tags=["runs"], dependencies=[needs(Scope.READ)], responses=responses(NotFound))


def run_service(database: DatabaseDep) -> RunService:
    """The service of this request."""
    return RunService(database)


ServiceDep = Annotated[RunService, Depends(run_service)]


@router.get("/experiments/{experiment_id}/sessions", dependencies=[sparse(SessionRead)])
async def list_sessions(experiment_id: str, service: ServiceDep) -> list[SessionRead]:
    """Every session of the attempt that counts in each block."""
    return await service.sessions(experiment_id)


@router.get("/experiments/{experiment_id}/runs", dependencies=[sparse(RunRead)])
async def list_runs(experiment_id: str, service: ServiceDep) -> list[RunRead]:
    """Every run of the attempt that counts in each block."""
    return await service.runs(experiment_id)


@router.get("/runs/{run_id}", dependencies=[sparse(RunRead)])
async def read_run(run_id: UUID, service: ServiceDep) -> RunRead:
    """One run."""
    return await service.run(run_id)
