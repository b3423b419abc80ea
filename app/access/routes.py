"""Who may come in: projects, accounts, tokens, and the audit log. Everything but `whoami` is for administrators."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query

from app.access.gate import access_service, needs
from app.access.schemas import (
    AccountRead,
    AccountWish,
    AuditPage,
    ProjectRead,
    ProjectWish,
    TokenId,
    TokenMade,
    TokenRead,
    TokenWish,
    WhoRead,
)
from app.access.service import AccessService
from app.db.acting import actor
from app.delivery.wishes import once
from app.domain.access import Scope, Slug
from app.domain.errors import IllegalTransition, NotFound
from app.errors import responses

ADMIN = needs(Scope.ADMIN)

router = APIRouter(prefix="/api/v1", tags=["access"])

ServiceDep = Annotated[AccessService, Depends(access_service)]


@router.get("/whoami", dependencies=[needs(Scope.READ)])
async def whoami() -> WhoRead:
    """Whom the service takes you for."""
    who = actor()
    return WhoRead(actor=who.actor, project=who.project, scope=who.scope)


@router.get("/tokens", dependencies=[ADMIN])
async def list_tokens(service: ServiceDep) -> list[TokenRead]:
    """Every token without its secret, newest first; the revoked and expired ones too."""
    return await service.tokens()


@router.post("/tokens", status_code=201, dependencies=[ADMIN, once(secret=True)], responses=responses(NotFound))
async def create_token(wish: TokenWish, service: ServiceDep) -> TokenMade:
    """Make a token. Its secret is in this answer and never again."""
    return await service.create_token(wish)


@router.delete("/tokens/{token_id}", status_code=204, dependencies=[ADMIN], responses=responses(NotFound))
async def revoke_token(token_id: Annotated[TokenId, Path()], service: ServiceDep) -> None:
    """Refuse a token from the next request on."""
    await service.revoke(token_id)


@router.get("/projects", dependencies=[ADMIN])
async def list_projects(service: ServiceDep) -> list[ProjectRead]:
    """Every project, by name."""
    return await service.projects()


@router.post("/projects", status_code=201, dependencies=[ADMIN, once()], responses=responses(IllegalTransition))
async def create_project(wish: ProjectWish, service: ServiceDep) -> list[ProjectRead]:
    """Make a project; answers with all of them."""
    return await service.create_project(wish.name)


@router.get("/accounts", dependencies=[ADMIN])
async def list_accounts(service: ServiceDep) -> list[AccountRead]:
    """Everyone who may log in with a browser, by name."""
    return await service.accounts()


@router.post("/accounts", dependencies=[ADMIN, once()], responses=responses(NotFound))
async def set_account(wish: AccountWish, service: ServiceDep) -> list[AccountRead]:
    """Make an account, or give one a new password, project or scope, which logs it out; answers with all of them."""
    return await service.set_account(wish)


@router.delete("/accounts/{name}", status_code=204, dependencies=[ADMIN], responses=responses(NotFound))
async def disable_account(name: Annotated[Slug, Path()], service: ServiceDep) -> None:
    """Log an account out everywhere and let nobody log in with it."""
    await service.disable_account(name)


@router.get("/audit", dependencies=[ADMIN])
async def read_audit(
    service: ServiceDep,
    cursor: Annotated[int | None, Query(ge=1, le=2**62, description="The previous page's `next_cursor`.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> AuditPage:
    """Who did what to what, newest first. The log only grows: the database refuses to change or delete it."""
    return await service.audit(cursor, limit)
