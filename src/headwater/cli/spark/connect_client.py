"""Commands that manage the connectors of a worker over its REST API."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

import typer

from headwater.cli.terminal import (
    AsJson,
    CommandConfig,
    exit_on_error,
    settings_in,
    show,
    show_done,
)

if TYPE_CHECKING:
    from headwater.network.http_client import HttpLocation

DEFAULT_URL: Final = "http://127.0.0.1:8083"
_TIMEOUT_S: Final = 90.0
_ANSWER_BYTES_MAX: Final = 64 * 1024 * 1024
_ERROR_STATUS: Final = 400
_USER_INFO: Final = "basic.auth.user.info"

Name = Annotated[str, typer.Argument(help="Connector name.")]
Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="HEADWATER_CONNECT",
        help="URL of the Connect worker.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerApi:
    """The REST API of a worker."""

    url: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    """TLS settings as for brokers, and `basic.auth.user.info`."""

    def get(self, *path: str, query: str = "") -> Any:
        return self.ask("GET", *path, query=query)

    def ask(self, method: str, *path: str, query: str = "", body: Any = None) -> Any:
        """Send a request and return the JSON of the response. Raises `KafkaError`."""
        import base64

        from headwater.client.errors import KafkaError
        from headwater.network.http_client import HttpConnection, http_location

        location = http_location(self.url, "--url")
        target = "/".join([location.target.rstrip("/"), *(quote(each, safe="") for each in path)])
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if user := self.settings.get(_USER_INFO):
            token = base64.b64encode(user.encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        connection = HttpConnection(
            location,
            timeout_s=_TIMEOUT_S,
            context=self._context(location),
            limit_bytes=_ANSWER_BYTES_MAX,
        )
        try:
            status, raw = connection.request(
                method,
                target + query,
                headers=headers,
                body=None if body is None else json.dumps(body).encode(),
            )
        except OSError as error:
            raise KafkaError(f"no Connect worker answers at {self.url}: {error}") from error
        finally:
            connection.close()
        if status >= _ERROR_STATUS:
            raise KafkaError(_message(status, raw))
        return json.loads(raw) if raw else None

    def _context(self, location: "HttpLocation") -> Any:
        if location.scheme != "https":
            return None
        from headwater.client.settings import kafka_name, read_values
        from headwater.common.settings.ssl_settings import ClientSslSettings
        from headwater.network.tls.ssl_context import client_context

        known = {kafka_name(each.name) for each in fields(ClientSslSettings)}
        given = {name: value for name, value in self.settings.items() if name in known}
        return client_context(read_values(ClientSslSettings, given, {}))


def worker_api(url: str, command_config: Path | None) -> WorkerApi:
    """Read the file with TLS settings and credentials."""
    return WorkerApi(url=url, settings=settings_in(command_config))


def _message(status: int, raw: bytes) -> str:
    try:
        return str(json.loads(raw)["message"])
    except (ValueError, KeyError, TypeError):
        return f"the worker answers with status {status}"


def connector_rows(found: Mapping[str, Any]) -> list[dict[str, object]]:
    """One row for each connector of `GET /connectors?expand=status&expand=info`."""
    rows: list[dict[str, object]] = []
    for name in sorted(found):
        info, status = found[name].get("info", {}), found[name].get("status", {})
        tasks = status.get("tasks", [])
        rows.append(
            {
                "connector": name,
                "type": info.get("type"),
                "class": info.get("config", {}).get("connector.class"),
                "state": status.get("connector", {}).get("state"),
                "task": ", ".join(each["state"] for each in tasks) or None,
                "worker": status.get("connector", {}).get("worker_id"),
            }
        )
    return rows


def list_connectors(api: WorkerApi, *, as_json: bool) -> None:
    """Print the connectors of a worker group."""
    with exit_on_error():
        found = api.get("connectors", query="?expand=status&expand=info")
    columns = ["connector", "type", "class", "state", "task", "worker"]
    show(connector_rows(found), as_json=as_json, columns=columns)


def status(
    name: Name,
    url: Url = DEFAULT_URL,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a connector of a worker, and why it has failed."""
    api = worker_api(url, command_config)
    with exit_on_error():
        found = api.get("connectors", name, "status")
    if as_json:
        typer.echo(json.dumps(found))
        return
    parts = [{"part": "connector", **found["connector"]}]
    parts += [{"part": f"task {each['id']}", **each} for each in found["tasks"]]
    show(parts, as_json=False, columns=["part", "state", "worker_id"])
    for each in parts:
        if each.get("trace"):
            typer.echo(f"\n{each['part']}: {str(each['trace']).rstrip()}")


def pause(
    name: Name,
    url: Url = DEFAULT_URL,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Pause a connector of a worker; `resume` continues it."""
    _change(worker_api(url, command_config), "PUT", name, "pause", as_json=as_json)


def stop(
    name: Name,
    url: Url = DEFAULT_URL,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Stop a connector of a worker, so that its offsets can be changed."""
    _change(worker_api(url, command_config), "PUT", name, "stop", as_json=as_json)


def resume(
    name: Name,
    url: Url = DEFAULT_URL,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Resume a paused or stopped connector of a worker."""
    _change(worker_api(url, command_config), "PUT", name, "resume", as_json=as_json)


def restart(
    name: Name,
    only_failed: Annotated[
        bool, typer.Option("--only-failed", help="Restart only if the task has failed.")
    ] = False,
    url: Url = DEFAULT_URL,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Restart a connector of a worker with its task."""
    query = f"?includeTasks=true&onlyFailed={str(only_failed).lower()}"
    api = worker_api(url, command_config)
    _change(api, "POST", name, "restart", query=query, as_json=as_json)


def delete(
    name: Name,
    url: Url = DEFAULT_URL,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete a connector of a worker. Its offsets are kept."""
    _change(worker_api(url, command_config), "DELETE", name, as_json=as_json)


def _change(
    api: WorkerApi, method: str, name: str, *path: str, as_json: bool, query: str = ""
) -> None:
    with exit_on_error():
        api.ask(method, "connectors", name, *path, query=query)
    change = path[0] if path else "delete"
    show_done([{"connector": name, "change": change}], as_json=as_json)


COMMANDS: Final = (status, pause, stop, resume, restart, delete)
