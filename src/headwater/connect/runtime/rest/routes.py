"""Requests of Kafka Connect's REST API, and their answers.

Reads are answered from the state that this worker has read. Changes are records in the config
topic, so that any worker of the group may accept them; the active one acts on them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import headwater
from headwater.connect.runtime.connect_errors import (
    ConnectRestError,
    bad_request,
    connector_not_found,
    no_status,
)
from headwater.connect.runtime.connect_records import (
    ConnectorConfigRecord,
    ConnectorState,
    ConnectRecord,
    LoggerRecord,
    RestartRecord,
    Status,
    TargetState,
    TargetStateRecord,
    TopicUseRecord,
)
from headwater.connect.runtime.connect_state import ConnectState
from headwater.connect.runtime.connect_store import ConnectChange
from headwater.connect.runtime.connector_config import (
    CONNECTOR_CLASS,
    NAME,
    InvalidConnectorConfig,
    read_connector_config,
)
from headwater.connect.runtime.connector_plugins import (
    ConnectorPlugin,
    find_plugin,
    installed_plugins,
    plugins_named,
)
from headwater.connect.runtime.log_levels import is_level
from headwater.connect.runtime.rest import connector_offsets
from headwater.connect.runtime.rest.config_infos import (
    config_infos,
    config_keys,
    invalid_config_message,
)
from headwater.connect.runtime.worker import ConnectWorker
from headwater.http_server.http_requests import HttpRoute
from headwater.spark.exceptions import InvalidOption


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRequest:
    """A request that matched a route."""

    worker: ConnectWorker
    parts: Sequence[str]
    query: Mapping[str, Sequence[str]]
    body: Any = None

    @property
    def state(self) -> ConnectState:
        return self.worker.state

    def flag(self, name: str, default: bool = False) -> bool:
        texts = self.query.get(name)
        return default if not texts else texts[-1].lower() == "true"

    @property
    def known_connector(self) -> str:
        """The connector in the path; 404 if there is none."""
        name = self.parts[0]
        if name not in self.state.configs:
            raise connector_not_found(name)
        return name

    @property
    def json_object(self) -> dict[str, Any]:
        if not isinstance(self.body, dict):
            raise bad_request("The request body must be a JSON object")
        return self.body


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectAnswer:
    """A response with a status or headers of its own; no body if None."""

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


_ACCEPTED: Final = ConnectAnswer(status=202)
_NO_CONTENT: Final = ConnectAnswer(status=204)

Handler = Callable[[ConnectRequest], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class ConnectRoute(HttpRoute):
    """A path and its handlers by method."""

    handlers: Mapping[str, Handler]


# The worker.


async def get_root(request: ConnectRequest) -> Any:
    return {
        "version": headwater.__version__,
        "commit": "unknown",
        "kafka_cluster_id": request.worker.store.cluster_id,
    }


async def get_health(request: ConnectRequest) -> Any:
    if not request.worker.store.is_loaded:
        message = "Worker is still starting up."
        return ConnectAnswer(body={"status": "starting", "message": message}, status=503)
    message = "Worker has completed startup and is ready to handle requests."
    return {"status": "healthy", "message": message}


# Connectors.


async def list_connectors(request: ConnectRequest) -> Any:
    names = sorted(request.state.configs)
    expansions = request.query.get("expand", ())
    if not expansions:
        return names
    found = {}
    for name in names:
        each: dict[str, Any] = {}
        if "status" in expansions and name in request.state.statuses:
            each["status"] = connector_status(request.state, name)
        if "info" in expansions:
            each["info"] = connector_info(request.state, name)
        found[name] = each
    return found


async def create_connector(request: ConnectRequest) -> Any:
    body = request.json_object
    name = str(body.get("name") or "").strip()
    config = _config(body.get("config"), name)
    initial = _initial_state(body.get("initial_state"))
    _check(config)

    def decide(state: ConnectState) -> ConnectChange:
        if name in state.configs:
            raise ConnectRestError(409, f"Connector {name} already exists")
        records: list[ConnectRecord] = [ConnectorConfigRecord(name, config)]
        # Without an initial state, one of an earlier connector of that name must not count.
        return ConnectChange([TargetStateRecord(name, initial), *records])

    await request.worker.store.change(decide)
    return _created(name, config)


async def get_connector(request: ConnectRequest) -> Any:
    name = request.known_connector
    return connector_info(request.state, name)


async def delete_connector(request: ConnectRequest) -> Any:
    name = request.known_connector

    def decide(state: ConnectState) -> ConnectChange:
        if name not in state.configs:
            raise connector_not_found(name)
        return ConnectChange([ConnectorConfigRecord(name, None), TargetStateRecord(name, None)])

    await request.worker.store.change(decide)
    return _NO_CONTENT


async def get_config(request: ConnectRequest) -> Any:
    return dict(request.state.configs[request.known_connector])


async def put_config(request: ConnectRequest) -> Any:
    name = request.parts[0]
    config = _config(request.json_object, name)
    _check(config)

    def decide(state: ConnectState) -> ConnectChange:
        return ConnectChange([ConnectorConfigRecord(name, config)], name not in state.configs)

    is_new = await request.worker.store.change(decide)
    return _created(name, config) if is_new else connector_info(request.state, name)


async def patch_config(request: ConnectRequest) -> Any:
    """Merge properties into the config; null removes one (KIP-477)."""
    name = request.known_connector
    patch = request.json_object
    if patch.get(NAME, name) != name:
        raise _name_mismatch(str(patch[NAME]), name)

    def decide(state: ConnectState) -> ConnectChange:
        if name not in state.configs:
            raise connector_not_found(name)
        merged = {**state.configs[name], **patch}
        config = _config({key: text for key, text in merged.items() if text is not None}, name)
        _check(config)
        return ConnectChange([ConnectorConfigRecord(name, config)])

    await request.worker.store.change(decide)
    return connector_info(request.state, name)


async def get_status(request: ConnectRequest) -> Any:
    name = request.parts[0]
    if name not in request.state.configs or name not in request.state.statuses:
        raise no_status(name)
    return connector_status(request.state, name)


async def restart_connector(request: ConnectRequest) -> Any:
    name = _restartable(request)
    record = RestartRecord(
        connector=name,
        include_tasks=request.flag("includeTasks"),
        only_failed=request.flag("onlyFailed"),
    )
    await request.worker.store.change(lambda _: ConnectChange([record]))
    if not record.include_tasks and not record.only_failed:
        return _NO_CONTENT
    if name not in request.state.statuses:
        raise no_status(name)
    shown = connector_status(request.state, name)
    is_started = request.state.target_state(name) is TargetState.STARTED
    for each in shown["tasks"] if is_started and record.include_tasks else ():
        if not record.only_failed or each["state"] == ConnectorState.FAILED:
            each["state"] = ConnectorState.RESTARTING.value
            each.pop("trace", None)
    return ConnectAnswer(body=shown, status=202)


def _restartable(request: ConnectRequest) -> str:
    """The connector in the path; Kafka Connect's message here is another one."""
    name = request.parts[0]
    if name not in request.state.configs:
        raise ConnectRestError(404, f"Unknown connector: {name}")
    return name


def _target(target: TargetState, answer: ConnectAnswer) -> Handler:
    async def put_target_state(request: ConnectRequest) -> Any:
        name = request.parts[0]

        def decide(state: ConnectState) -> ConnectChange:
            if name not in state.configs:
                raise ConnectRestError(404, f"Unknown connector {name}")
            return ConnectChange([TargetStateRecord(name, target)])

        await request.worker.store.change(decide)
        return answer

    return put_target_state


# Tasks. A connector has one task, unless it is stopped.


async def list_tasks(request: ConnectRequest) -> Any:
    name = request.known_connector
    return [
        {"id": {"connector": name, "task": 0}, "config": dict(request.state.configs[name])}
        for _ in _task_ids(request.state, name)
    ]


async def get_task_status(request: ConnectRequest) -> Any:
    name, task = request.parts
    statuses = request.state.task_statuses.get(name, {})
    if name not in request.state.configs or not _is_task(task) or int(task) not in statuses:
        raise ConnectRestError(404, f"No status found for task {name}-{task}")
    return _task_status(request.state, name, int(task))


async def restart_task(request: ConnectRequest) -> Any:
    name, task = _restartable(request), request.parts[1]
    if not _is_task(task) or int(task) not in _task_ids(request.state, name):
        raise ConnectRestError(404, f"Unknown task: {name}-{task}")
    record = RestartRecord(connector=name, include_tasks=True, only_failed=False)
    await request.worker.store.change(lambda _: ConnectChange([record]))
    return _NO_CONTENT


# Topics and offsets.


async def get_topics(request: ConnectRequest) -> Any:
    if not request.worker.settings.topic_tracking_enable:
        raise ConnectRestError(403, "Topic tracking is disabled.")
    # As in Kafka Connect, an unknown connector has no topics.
    name = request.parts[0]
    return {name: {"topics": sorted(request.state.topics.get(name, {}))}}


async def reset_topics(request: ConnectRequest) -> Any:
    settings = request.worker.settings
    if not settings.topic_tracking_enable:
        raise ConnectRestError(403, "Topic tracking is disabled.")
    if not settings.topic_tracking_allow_reset:
        raise ConnectRestError(403, "Topic tracking reset is disabled.")
    name = request.parts[0]
    await request.worker.store.forget_topics(
        [
            TopicUseRecord(connector=name, topic=topic, discovered_ms=None)
            for topic in sorted(request.state.topics.get(name, {}))
        ]
    )
    return _ACCEPTED


async def get_offsets(request: ConnectRequest) -> Any:
    name = request.known_connector
    return {"offsets": await connector_offsets.read_offsets(request.worker.store, name)}


async def alter_offsets(request: ConnectRequest) -> Any:
    name = request.known_connector
    _check_stopped(request.state, name)
    await connector_offsets.alter_offsets(
        request.worker.store, request.worker.settings, name, request.json_object.get("offsets")
    )
    return {"message": "The offsets for this connector have been altered successfully"}


async def reset_offsets(request: ConnectRequest) -> Any:
    name = request.known_connector
    _check_stopped(request.state, name)
    await connector_offsets.reset_offsets(request.worker.store, request.worker.settings, name)
    return {"message": "The offsets for this connector have been reset successfully"}


def _check_stopped(state: ConnectState, name: str) -> None:
    status = state.statuses.get(name)
    is_stopped = status is not None and status.state is ConnectorState.STOPPED
    if state.target_state(name) is not TargetState.STOPPED or not is_stopped:
        raise bad_request(
            "Connectors must be in the STOPPED state before their offsets can be modified. This "
            "can be done for the specified connector by issuing a 'PUT' request to the "
            f"'/connectors/{name}/stop' endpoint"
        )


# Plugins.


async def list_plugins(_request: ConnectRequest) -> Any:
    return [
        {"class": each.class_name, "type": each.type.value, "version": each.version}
        for each in installed_plugins()
    ]


async def get_plugin_config(request: ConnectRequest) -> Any:
    return config_keys(_plugin(request.parts[0], {}))


async def validate_config(request: ConnectRequest) -> Any:
    name = request.parts[0]
    config = _config(request.json_object, None)
    given = config.get(CONNECTOR_CLASS)
    plugin = _plugin(name, config)
    if given is None:
        raise bad_request(f"The config has no {CONNECTOR_CLASS}")
    if plugin not in plugins_named(given):
        raise bad_request(f"Included connector type {given} does not match request type {name}")
    return config_infos(plugin, config)


def _plugin(name: str, config: Mapping[str, str]) -> ConnectorPlugin:
    try:
        return find_plugin(name, config)
    except InvalidOption as error:
        raise ConnectRestError(404, str(error)) from None


# Loggers.


async def list_loggers(request: ConnectRequest) -> Any:
    return request.worker.levels.all()


async def get_logger(request: ConnectRequest) -> Any:
    found = request.worker.levels.get(request.parts[0])
    if found is None:
        raise ConnectRestError(404, f"Logger {request.parts[0]} not found.")
    return found


async def put_logger(request: ConnectRequest) -> Any:
    level = request.json_object.get("level")
    if level is None:
        raise bad_request("Desired 'level' parameter was not specified in request.")
    if not is_level(str(level)):
        raise ConnectRestError(404, f"invalid log level '{level}'.")
    logger = request.parts[0]
    if request.query.get("scope", ("worker",))[-1].lower() == "cluster":
        record = LoggerRecord(logger, str(level).upper())
        await request.worker.store.change(lambda _: ConnectChange([record]))
        return _NO_CONTENT
    return request.worker.levels.set(logger, str(level))


# What several requests show or check.


def connector_info(state: ConnectState, name: str) -> dict[str, Any]:
    config = state.configs[name]
    tasks = [{"connector": name, "task": task} for task in _task_ids(state, name)]
    return {"name": name, "config": dict(config), "tasks": tasks, "type": _type(config)}


def connector_status(state: ConnectState, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "connector": _shown_status(state.statuses[name], state.configs[name]),
        "tasks": [_task_status(state, name, task) for task in _task_ids(state, name)],
        "type": _type(state.configs[name]),
    }


def _task_status(state: ConnectState, name: str, task: int) -> dict[str, Any]:
    status = state.task_statuses[name][task]
    return {"id": task, **_shown_status(status, state.configs[name])}


def _shown_status(status: Status, config: Mapping[str, str]) -> dict[str, Any]:
    shown = {"state": status.state.value, "worker_id": status.worker_id}
    if status.trace is not None:
        shown["trace"] = status.trace
    if (plugin := _plugin_of(config)) is not None:
        shown["version"] = plugin.version
    return shown


def _task_ids(state: ConnectState, name: str) -> list[int]:
    return sorted(state.task_statuses.get(name, {}))


def _is_task(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _type(config: Mapping[str, str]) -> str:
    plugin = _plugin_of(config)
    return "unknown" if plugin is None else plugin.type.value


def _plugin_of(config: Mapping[str, str]) -> ConnectorPlugin | None:
    try:
        return find_plugin(config.get(CONNECTOR_CLASS, ""), config)
    except InvalidOption:
        return None


def _created(name: str, config: Mapping[str, str]) -> ConnectAnswer:
    location = {"Location": f"/connectors/{quote(name, safe='')}"}
    # Its task comes when the active worker has read the config.
    info = {"name": name, "config": dict(config), "tasks": [], "type": _type(config)}
    return ConnectAnswer(body=info, status=201, headers=location)


def _config(given: object, name: str | None) -> dict[str, str]:
    """A config as texts, with the connector's name."""
    if not isinstance(given, dict):
        raise bad_request("The config must be a JSON object")
    config = {str(key): _text(key, value) for key, value in given.items() if value is not None}
    if name is None:
        return config
    if config.setdefault(NAME, name) != name:
        raise _name_mismatch(config[NAME], name)
    return config


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise bad_request(f"The property {name} must be a text, a number or a boolean")


def _name_mismatch(given: str, name: str) -> ConnectRestError:
    return bad_request(
        f"Connector name configuration ({given}) doesn't match connector name in the URL ({name})"
    )


def _initial_state(given: object) -> TargetState | None:
    if given is None:
        return None
    try:
        wanted = {"RUNNING": TargetState.STARTED}.get(str(given).upper())
        return wanted or TargetState(str(given).upper())
    except ValueError:
        raise bad_request(f"initial_state must be RUNNING, PAUSED or STOPPED, not {given}") from (
            None
        )


def _check(config: Mapping[str, str]) -> None:
    try:
        read_connector_config(config)
    except InvalidConnectorConfig as error:
        raise bad_request(invalid_config_message(error.problems)) from None


def _route(template: str, **handlers: Handler) -> ConnectRoute:
    parts = template.strip("/").split("/")
    return ConnectRoute(tuple(None if each == "*" else each for each in parts), handlers)


ROUTES: Final = (
    _route("/", GET=get_root),
    _route("/health", GET=get_health),
    _route("/connectors", GET=list_connectors, POST=create_connector),
    _route("/connectors/*", GET=get_connector, DELETE=delete_connector),
    _route("/connectors/*/config", GET=get_config, PUT=put_config, PATCH=patch_config),
    _route("/connectors/*/status", GET=get_status),
    _route("/connectors/*/restart", POST=restart_connector),
    _route("/connectors/*/pause", PUT=_target(TargetState.PAUSED, _ACCEPTED)),
    _route("/connectors/*/resume", PUT=_target(TargetState.STARTED, _ACCEPTED)),
    _route("/connectors/*/stop", PUT=_target(TargetState.STOPPED, _NO_CONTENT)),
    _route("/connectors/*/tasks", GET=list_tasks),
    _route("/connectors/*/tasks/*/status", GET=get_task_status),
    _route("/connectors/*/tasks/*/restart", POST=restart_task),
    _route("/connectors/*/topics", GET=get_topics),
    _route("/connectors/*/topics/reset", PUT=reset_topics),
    _route("/connectors/*/offsets", GET=get_offsets, PATCH=alter_offsets, DELETE=reset_offsets),
    _route("/connector-plugins", GET=list_plugins),
    _route("/connector-plugins/*/config", GET=get_plugin_config),
    _route("/connector-plugins/*/config/validate", PUT=validate_config),
    _route("/admin/loggers", GET=list_loggers),
    _route("/admin/loggers/*", GET=get_logger, PUT=put_logger),
)
