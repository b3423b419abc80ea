"""Several experiments side by side."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from app.access.gate import needs
from app.across.schemas import Across, References
from app.across.service import AcrossService
from app.comparisons.routes import ServiceDep as Comparisons
from app.domain.access import Scope
from app.domain.errors import EvidenceRefused, NotFound
from app.errors import responses
from app.experiments.routes import ServiceDep as Experiments

router = APIRouter(prefix="/api/v1/compare", tags=["reports"], dependencies=[needs(Scope.READ)])


def across_service(experiments: Experiments, comparisons: Comparisons) -> AcrossService:
    """The service of this request."""
    return AcrossService(experiments, comparisons)


ServiceDep = Annotated[AcrossService, Depends(across_service)]


@router.get("", responses=responses(NotFound, EvidenceRefused))
async def compare_experiments(of: Annotated[References, Query()], service: ServiceDep) -> Across:
    """What 2 to 6 experiments pin otherwise, and the verdicts of each from its own blocks; no ratio between two."""
    return await service.whole(of)
