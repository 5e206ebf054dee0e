"""Configs of API v3: of topics, of brokers, and of the whole cluster."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from headwater.client.admin.config_calls import ConfigChange
from headwater.client.admin.descriptions import ConfigEntry, ConfigResource
from headwater.common.config_types import ConfigOperation, ConfigSource
from headwater.rest.rest_errors import RestProxyError, bad_request
from headwater.rest.rest_request import NO_CONTENT, RestRequest
from headwater.rest.v3.clusters import found_broker
from headwater.rest.v3.resources import ClusterScope, Json
from headwater.rest.v3.topics import all_topics, found_topic

_SOURCES: Final = {
    ConfigSource.TOPIC_CONFIG: "DYNAMIC_TOPIC_CONFIG",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "DYNAMIC_BROKER_CONFIG",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    ConfigSource.STATIC_BROKER_CONFIG: "STATIC_BROKER_CONFIG",
    ConfigSource.DEFAULT_CONFIG: "DEFAULT_CONFIG",
    ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG: "DYNAMIC_BROKER_LOGGER_CONFIG",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOwner:
    """What the configs of a path belong to."""

    resource: ConfigResource
    kind: str
    path: tuple[object, ...]
    name: str
    fields: Json


Owner = Callable[[ClusterScope], Awaitable[ConfigOwner]]


async def topic_owner(scope: ClusterScope) -> ConfigOwner:
    topic = await found_topic(scope, scope.request.parts[1])
    return _of_topic(topic.name)


async def broker_owner(scope: ClusterScope) -> ConfigOwner:
    broker = await found_broker(scope, scope.request.number(1))
    return _of_broker(broker.node_id)


async def cluster_owner(_scope: ClusterScope) -> ConfigOwner:
    return ConfigOwner(
        resource=ConfigResource.broker(),
        kind="KafkaClusterConfig",
        path=("broker-configs",),
        name="broker-config=",
        fields={"config_type": "BROKER"},
    )


def list_configs(owner: Owner) -> Callable[[RestRequest], Awaitable[Any]]:
    async def handle(request: RestRequest) -> Any:
        scope = await ClusterScope.of(request)
        found = await owner(scope)
        entries = await _entries(scope, found.resource)
        data = [_config(scope, found, each) for each in entries.values()]
        return scope.listing(f"{found.kind}List", found.path, data)

    return handle


def get_config(owner: Owner) -> Callable[[RestRequest], Awaitable[Any]]:
    async def handle(request: RestRequest) -> Any:
        scope = await ClusterScope.of(request)
        found = await owner(scope)
        name = request.parts[-1]
        entries = await _entries(scope, found.resource, [name])
        if name not in entries:
            raise RestProxyError(404, f"Config {name} cannot be found.")
        return _config(scope, found, entries[name])

    return handle


def update_config(owner: Owner) -> Callable[[RestRequest], Awaitable[Any]]:
    async def handle(request: RestRequest) -> Any:
        scope = await ClusterScope.of(request)
        found = await owner(scope)
        value = request.fields(status=400).optional_text("value")
        await scope.admin.alter_configs({found.resource: {request.parts[-1]: value}})
        return NO_CONTENT

    return handle


def delete_config(owner: Owner) -> Callable[[RestRequest], Awaitable[Any]]:
    async def handle(request: RestRequest) -> Any:
        """Reset a config to its default."""
        scope = await ClusterScope.of(request)
        found = await owner(scope)
        change = ConfigChange(ConfigOperation.DELETE)
        await scope.admin.alter_configs({found.resource: {request.parts[-1]: change}})
        return NO_CONTENT

    return handle


def alter_configs(owner: Owner) -> Callable[[RestRequest], Awaitable[Any]]:
    async def handle(request: RestRequest) -> Any:
        scope = await ClusterScope.of(request)
        found = await owner(scope)
        body = request.fields(status=400)
        changes: dict[str, ConfigChange] = {}
        for each in body.objects("data"):
            operation = (each.optional_text("operation") or "SET").upper()
            if operation not in ("SET", "DELETE"):
                raise bad_request("operation must be SET or DELETE")
            name = each.text("name")
            if name in changes:
                raise bad_request(f"config {name} occurs twice")
            value = each.optional_text("value")
            is_deletion = operation == "DELETE" or value is None
            changes[name] = (
                ConfigChange(ConfigOperation.DELETE)
                if is_deletion
                else ConfigChange(ConfigOperation.SET, value)
            )
        await scope.admin.alter_configs(
            {found.resource: changes}, validate_only=body.flag("validate_only")
        )
        return NO_CONTENT

    return handle


async def list_all_topic_configs(request: RestRequest) -> Any:
    """The configs of all topics."""
    scope = await ClusterScope.of(request)
    owners = [_of_topic(each.name) for each in await all_topics(scope)]
    return await _listed(scope, "KafkaTopicConfigList", ["topics", "-", "configs"], owners)


async def list_all_broker_configs(request: RestRequest) -> Any:
    """The configs of all brokers."""
    scope = await ClusterScope.of(request)
    cluster = await scope.admin.describe_cluster()
    owners = [_of_broker(each.node_id) for each in cluster.brokers]
    return await _listed(scope, "KafkaBrokerConfigList", ["brokers", "-", "configs"], owners)


async def _listed(
    scope: ClusterScope, kind: str, path: list[object], owners: list[ConfigOwner]
) -> Json:
    found = await scope.admin.describe_configs([each.resource for each in owners])
    data = [
        _config(scope, owner, entry) for owner in owners for entry in found[owner.resource].values()
    ]
    return scope.listing(kind, path, data)


async def _entries(
    scope: ClusterScope, resource: ConfigResource, names: Iterable[str] | None = None
) -> dict[str, ConfigEntry]:
    return (await scope.admin.describe_configs([resource], names=names))[resource]


def _of_topic(name: str) -> ConfigOwner:
    return ConfigOwner(
        resource=ConfigResource.topic(name),
        kind="KafkaTopicConfig",
        path=("topics", name, "configs"),
        name=f"topic={name}/config=",
        fields={"topic_name": name},
    )


def _of_broker(broker_id: int) -> ConfigOwner:
    return ConfigOwner(
        resource=ConfigResource.broker(broker_id),
        kind="KafkaBrokerConfig",
        path=("brokers", broker_id, "configs"),
        name=f"broker={broker_id}/config=",
        fields={"broker_id": broker_id},
    )


def _config(scope: ClusterScope, owner: ConfigOwner, entry: ConfigEntry) -> Json:
    source = (
        _SOURCES.get(entry.source, "UNKNOWN")
        if isinstance(entry.source, ConfigSource)
        else "UNKNOWN"
    )
    return scope.resource(
        owner.kind,
        (*owner.path, entry.name),
        f"{owner.name}{entry.name}",
        **owner.fields,
        name=entry.name,
        value=entry.value,
        is_default=entry.is_default,
        is_read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
        source=source,
        # The admin client does not ask brokers for synonyms: only the effective value is known.
        synonyms=[{"name": entry.name, "value": entry.value, "source": source}],
    )
