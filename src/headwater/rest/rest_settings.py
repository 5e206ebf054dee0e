"""Settings of the REST API, under the names of Confluent's REST Proxy.

    bootstrap.servers=localhost:9092
    schema.registry.url=http://localhost:8081
    consumer.instance.timeout.ms=60000
    client.security.protocol=SSL

Settings that start with `client.` are for all Kafka clients, those with `producer.`, `consumer.`
or `admin.` for one kind. Settings with `headwater.` have no counterpart in Confluent's proxy.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Final

from headwater.client.serialization.schema_registry_settings import is_registry_setting
from headwater.client.settings import kafka_name, read_values, setting
from headwater.common.settings.setting_types import integer, long, text

CLIENT: Final = "client."
PRODUCER: Final = "producer."
CONSUMER: Final = "consumer."
ADMIN: Final = "admin."

_CLIENTS: Final = (CLIENT, PRODUCER, CONSUMER, ADMIN)
_BOOTSTRAP: Final = "bootstrap.servers"
_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSettings:
    """Limits, and the names that appear in URLs."""

    id: str = setting(text(), "")
    # Empty: the host that the client has asked for.
    advertised_listeners: str = setting(text(), "")
    consumer_instance_timeout_ms: int = setting(integer(1), 300_000)
    consumer_request_timeout_ms: int = setting(integer(0), 1_000)
    consumer_request_max_bytes: int = setting(long(1), 64 * _MIB)
    # Unlike Confluent's -1, which always waits for the whole timeout.
    fetch_min_bytes: int = setting(integer(-1), 1)
    # Kafka's default; Confluent's proxy polls 30 records at a time.
    max_poll_records: int = setting(integer(1), 500)
    idle_timeout_ms: int = setting(long(1), 30_000)
    streaming_connection_max_duration_ms: int = setting(long(1), 86_400_000)
    headwater_consumer_instances_max: int = setting(integer(1), 256)
    headwater_request_max_bytes: int = setting(integer(1), 4 * _MIB)
    headwater_requests_max: int = setting(integer(1), 256)
    headwater_streams_max: int = setting(integer(1), 64)


NAMES: Final = frozenset(kafka_name(each.name) for each in fields(RestSettings))


def read_rest_settings(given: Mapping[str, str]) -> RestSettings:
    """Read the settings of the proxy itself; `InvalidSetting` names an invalid one."""
    return read_values(
        RestSettings, {name: value for name, value in given.items() if name in NAMES}, {}
    )


def client_part(given: Mapping[str, object], *prefixes: str) -> dict[str, object]:
    """The settings with these prefixes, without them; later prefixes override."""
    found: dict[str, object] = {}
    for prefix in prefixes:
        found |= {
            name.removeprefix(prefix): value
            for name, value in given.items()
            if name.startswith(prefix) and name not in NAMES
        }
    return found


def known_names(given: Mapping[str, str]) -> Collection[str]:
    """The names that are read here, as opposed to those of the HTTP port."""
    return [
        name
        for name in given
        if name in NAMES
        or name == _BOOTSTRAP
        or name.startswith(_CLIENTS)
        or is_registry_setting(name)
    ]


def bootstrap_of(given: Mapping[str, str]) -> str:
    """The brokers; Confluent's addresses may start with a security protocol."""
    return ",".join(
        each.strip().rpartition("://")[2] for each in given.get(_BOOTSTRAP, "").split(",")
    ).strip(",")
