"""Settings of a Connect worker, under Kafka Connect's names.

    bootstrap.servers=localhost:9092
    group.id=connect-cluster
    config.storage.topic=connect-configs
    offset.storage.topic=connect-offsets
    status.storage.topic=connect-status
    listeners=http://127.0.0.1:8083

Settings of clients without a prefix are for all clients; those with `producer.`, `consumer.` or
`admin.` are for the clients of connectors. The TLS settings of the REST API start with
`listeners.https.`, or are those of the clients, as in Kafka Connect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final

from headwater.client.settings import kafka_name, read_values, setting, shared_settings
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.setting_types import boolean, integer, long, text
from headwater.connect.runtime.connector_config import converter_problems

PRODUCER: Final = "producer."
CONSUMER: Final = "consumer."
ADMIN: Final = "admin."
LISTENER_TLS: Final = "listeners.https."
DEFAULT_LISTEN: Final = "127.0.0.1:8083"

_CLIENTS: Final = (PRODUCER, CONSUMER, ADMIN)
_BOOTSTRAP: Final = "bootstrap.servers"
_MIB: Final = 1024 * 1024
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
# Sources are exactly once, whatever it says.
_ALWAYS: Final = "exactly.once.source.support"
# Java classes that may enforce access control: must not be ignored silently.
_REFUSED: Final = ("rest.extension.classes",)
_SSL: Final = "ssl."


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
    """A worker's group, its topics, and limits."""

    group_id: str = setting(text(), "")
    config_storage_topic: str = setting(text(), "")
    config_storage_replication_factor: int = setting(integer(-1), 3)
    offset_storage_topic: str = setting(text(), "")
    offset_storage_partitions: int = setting(integer(-1), 25)
    offset_storage_replication_factor: int = setting(integer(-1), 3)
    status_storage_topic: str = setting(text(), "")
    status_storage_partitions: int = setting(integer(-1), 5)
    status_storage_replication_factor: int = setting(integer(-1), 3)
    rest_advertised_host_name: str = setting(text(), "")
    rest_advertised_port: int = setting(integer(0), 0)
    session_timeout_ms: int = setting(integer(1), 10_000)
    heartbeat_interval_ms: int = setting(integer(1), 3_000)
    task_shutdown_graceful_timeout_ms: int = setting(long(1), 5_000)
    topic_tracking_enable: bool = setting(boolean(), True)
    topic_tracking_allow_reset: bool = setting(boolean(), True)
    headwater_request_max_bytes: int = setting(integer(1), _MIB)
    headwater_requests_max: int = setting(integer(1), 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFile:
    """A worker's properties file, divided by what reads it."""

    settings: WorkerSettings
    bootstrap_servers: str
    client: Mapping[str, str] = field(repr=False)
    """Settings of all clients."""
    producer: Mapping[str, str] = field(repr=False)
    consumer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)
    http: Mapping[str, str] = field(repr=False)
    """Settings of the HTTP port, and unknown ones."""


def read_worker_file(given: Mapping[str, str]) -> WorkerFile:
    """Read a worker's properties. Raises `InvalidSetting`."""
    own = {kafka_name(each.name) for each in fields(WorkerSettings)}
    settings = read_values(
        WorkerSettings, {name: value for name, value in given.items() if name in own}, {}
    )
    for name in ("group.id", "config.storage.topic", "offset.storage.topic"):
        _require(given, name)
    _require(given, "status.storage.topic")
    _require(given, _BOOTSTRAP)
    if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
        raise InvalidSetting("heartbeat.interval.ms must be below session.timeout.ms")
    for name in _REFUSED:
        if given.get(name):
            raise InvalidSetting(f"{name} is not supported: Java classes cannot be loaded")
    if given.get(_CONVERTERS[1], "").endswith("AvroConverter"):
        raise InvalidSetting(f"{_CONVERTERS[1]} of Avro is a property of connectors, not workers")
    for problem in converter_problems(given):
        raise InvalidSetting(f"{problem.name} {problem.message}")
    rest = {
        name: value
        for name, value in given.items()
        if name not in own and name != _ALWAYS and not name.startswith((*_CONVERTERS, *_CLIENTS))
    }
    client = shared_settings(rest)
    return WorkerFile(
        settings=settings,
        bootstrap_servers=given[_BOOTSTRAP],
        client=client,
        producer=_part(given, PRODUCER),
        consumer=_part(given, CONSUMER),
        admin=_part(given, ADMIN),
        http=_http(rest, client),
    )


def _require(given: Mapping[str, str], name: str) -> None:
    if not given.get(name):
        raise InvalidSetting(f"{name} is missing")


def _part(given: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)
    }


def _http(rest: Mapping[str, str], client: Mapping[str, str]) -> dict[str, str]:
    """Settings of the port: those with a prefix, else the clients' TLS settings."""
    with_prefix = _part(rest, LISTENER_TLS)
    if not with_prefix and rest.get("listeners", "").lower().startswith("https:"):
        with_prefix = {name: value for name, value in rest.items() if name.startswith(_SSL)}
    others = {
        name: value
        for name, value in rest.items()
        if name not in client and not name.startswith((LISTENER_TLS, _SSL))
    }
    return {**others, **with_prefix}
