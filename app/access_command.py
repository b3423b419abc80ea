"""The commands around access: ``login``, ``token``, ``account``, ``project``, ``audit``, and the first token."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.errors import DomainError
from app.terminal import LOCAL_URL, AsJson, Url, refusals, tell

token_app = typer.Typer(no_args_is_help=True, help="Make API tokens, list them, revoke them.")
account_app = typer.Typer(no_args_is_help=True, help="Let people log in with a browser, or no longer.")
project_app = typer.Typer(no_args_is_help=True, help="Make projects, list them; each sees only its own experiments.")
access_app = typer.Typer(no_args_is_help=True, help="On the host of the service itself.")

Name = Annotated[str, typer.Argument(help="Lower-case letters, digits and hyphens.")]
Project = Annotated[str, typer.Option("--project", help="Whose experiments it sees.")]
Granted = Annotated[Scope, typer.Option("--scope", help="submit includes read, admin includes everything.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the others."""
    app.command("login")(login)
    app.command("logout")(logout)
    app.command("audit")(show_audit)
    for name, commands in (
        ("token", token_app),
        ("account", account_app),
        ("project", project_app),
        ("access", access_app),
    ):
        app.add_typer(commands, name=name)


def login(*, url: Url = LOCAL_URL) -> None:
    """Ask for a token, try it, and keep it for this service in a file that only you can read."""
    from app import credentials  # noqa: PLC0415  (other commands start without it)
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    token = typer.prompt("Token", hide_input=True).strip()
    with refusals(), AccessClient(url, token=token) as service:
        who = service.whoami()
    tell({**who, "kept": str(credentials.remember(url, token))})


def logout(*, url: Url = LOCAL_URL) -> None:
    """Forget the token that was kept for this service; it stays valid until it is revoked."""
    from app import credentials  # noqa: PLC0415  (as above)

    tell({"forgotten": "yes" if credentials.forget(url) else "there was none"})


def show_audit(
    *,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many, newest first.")] = 50,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Show who did what to what, newest first."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(as_json=as_json), AccessClient(url) as service:
        events = service.audit(limit)["items"]
    if as_json:
        tell(events, as_json=True)
        return
    for event in events:
        detail = " ".join(f"{key}={value}" for key, value in event["detail"].items())
        typer.echo(
            f"{event['at']}  {event['actor']} ({event['project']})  {event['action']}  {event['target']}  {detail}"
        )


@token_app.command("create")
def create_token(
    name: Name,
    *,
    project: Project = DEFAULT_PROJECT,
    scope: Granted = Scope.READ,
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="After which it expires.")] = 90,
    as_json: AsJson = False,
    url: Url = LOCAL_URL,
) -> None:
    """Make a token. It is shown this once: put it where it belongs now."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    wish = {"name": name, "project": project, "scope": scope, "expires_in_days": days}
    with refusals(as_json=as_json), AccessClient(url) as service:
        made = service.create_token(wish)
    short = {key: made[key] for key in ("id", "project", "scope", "expires_at", "token")}
    tell(made if as_json else short, as_json=as_json)


@token_app.command("list")
def list_tokens(*, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """List every token without its secret."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(as_json=as_json), AccessClient(url) as service:
        _rows(service.tokens(), ("id", "name", "project", "scope", "expires_at", "revoked_at"), as_json=as_json)


@token_app.command("revoke")
def revoke_token(
    token_id: Annotated[str, typer.Argument(help="The 12 digits after vdt_.")], *, url: Url = LOCAL_URL
) -> None:
    """Refuse a token from the next request on."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(), AccessClient(url) as service:
        service.revoke_token(_token_id(token_id))
    tell({"revoked": token_id})


@account_app.command("set")
def set_account(
    name: Name, *, project: Project = DEFAULT_PROJECT, scope: Granted = Scope.READ, url: Url = LOCAL_URL
) -> None:
    """Make an account, or give one a new password, project or scope; asks for the password."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    password = typer.prompt("Password (12 characters or more)", hide_input=True, confirmation_prompt=True)
    with refusals(), AccessClient(url) as service:
        service.set_account({"name": name, "password": password, "project": project, "scope": scope})
    tell({"account": name, "project": project, "scope": str(scope)})


@account_app.command("list")
def list_accounts(*, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """List who may log in with a browser."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(as_json=as_json), AccessClient(url) as service:
        _rows(service.accounts(), ("name", "project", "scope", "disabled"), as_json=as_json)


@account_app.command("disable")
def disable_account(name: Name, *, url: Url = LOCAL_URL) -> None:
    """Log an account out everywhere and let nobody log in with it."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(), AccessClient(url) as service:
        service.disable_account(name)
    tell({"disabled": name})


@project_app.command("create")
def create_project(name: Name, *, url: Url = LOCAL_URL) -> None:
    """Make a project."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(), AccessClient(url) as service:
        service.create_project(name)
    tell({"project": name})


@project_app.command("list")
def list_projects(*, as_json: AsJson = False, url: Url = LOCAL_URL) -> None:
    """List every project."""
    from app.access_client import AccessClient  # noqa: PLC0415  (as above)

    with refusals(as_json=as_json), AccessClient(url) as service:
        _rows(service.projects(), ("name", "created_at"), as_json=as_json)


@access_app.command("admin-token")
def admin_token() -> None:
    """Make an administrator's token straight in the database: the first one, or the way back in."""
    from app.access.first import admin_token as made_token  # noqa: PLC0415  (as above)
    from app.settings import Settings  # noqa: PLC0415  (as above)

    with refusals():
        made = made_token(Settings())
    tell({"id": made.id, "expires_at": str(made.expires_at), "token": made.token})


def _rows(rows: Iterable[dict[str, Any]], names: tuple[str, ...], *, as_json: bool) -> None:
    found = list(rows)
    if as_json:
        tell(found, as_json=True)
        return
    for row in found:
        typer.echo("  ".join(f"{name}={row[name]}" for name in names if row[name] is not None))


def _token_id(text: str) -> str:
    """As it is listed, or as the token itself begins."""
    bare = text.removeprefix("vdt_")
    if len(bare) != 12 or any(digit not in "0123456789abcdef" for digit in bare):  # noqa: PLR2004  (as it is made)
        raise DomainError.of("token", f"{text[:16]!r} is not the id of a token", "`verdraft token list` prints them")
    return bare
