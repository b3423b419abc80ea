"""The API's part for who may come in, as the command line asks for it."""

from typing import Any

from app.client import Service
from app.problems import Problem


class AccessClient(Service):
    """Every method raises ``Refused``."""

    def whoami(self) -> Problem:
        return self._call("GET", "/whoami")

    def tokens(self) -> list[dict[str, Any]]:
        return self._call("GET", "/tokens")

    def create_token(self, wish: dict[str, Any]) -> Problem:
        return self._call("POST", "/tokens", json=wish)

    def revoke_token(self, token_id: str) -> None:
        self._request("DELETE", f"/tokens/{token_id}")

    def projects(self) -> list[dict[str, Any]]:
        return self._call("GET", "/projects")

    def create_project(self, name: str) -> list[dict[str, Any]]:
        return self._call("POST", "/projects", json={"name": name})

    def accounts(self) -> list[dict[str, Any]]:
        return self._call("GET", "/accounts")

    def set_account(self, wish: dict[str, Any]) -> list[dict[str, Any]]:
        return self._call("POST", "/accounts", json=wish)

    def disable_account(self, name: str) -> None:
        self._request("DELETE", f"/accounts/{name}")

    def audit(self, limit: int) -> Problem:
        return self._call("GET", "/audit", params={"limit": limit})
