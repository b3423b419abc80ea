"""Forget an experiment."""

from typing import Annotated

from fastapi import APIRouter, Depends

from app.access.gate import needs
from app.domain.access import Scope
from app.domain.errors import IllegalTransition, NotFound
from app.errors import responses
from app.retention.schemas import DeletedRead
from app.retention.service import RetentionService
from app.state import DatabaseDep, SettingsDep

router = APIRouter(prefix="/api/v1/experiments", tags=["experiments"])


def retention_service(database: DatabaseDep, settings: SettingsDep) -> RetentionService:
    """The service of this request."""
    return RetentionService(database, settings)


@router.delete("/{experiment_id}", dependencies=[needs(Scope.ADMIN)], responses=responses(NotFound, IllegalTransition))
async def delete_experiment(
    experiment_id: str, service: Annotated[RetentionService, Depends(retention_service)]
) -> DeletedRead:
    """Delete an experiment that has ended, with its evidence, files and reports. There is no way back."""
    return await service.delete(experiment_id)
