"""Describe and alter configs of topics, brokers, broker loggers and groups."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headwater.client.admin.admin_calls import Calls, outcome, results_of
from headwater.client.admin.config_values import ConfigValue, config_text
from headwater.client.admin.descriptions import ConfigEntry, ConfigResource
from headwater.client.argument_checks import several
from headwater.client.errors import KafkaError
from headwater.common.config_types import ConfigOperation, ConfigSource, ResourceType
from headwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one config: set, delete, or append to or subtract from a list."""

    operation: ConfigOperation
    value: ConfigValue | None = None


class ConfigCalls(Calls):
    """The config methods of the admin client."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        timeout: float | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Configs of each resource: all, or those with these names."""
        deadline_ms = self._deadline_ms(timeout)
        keys = None if names is None else tuple(several(names, "names"))
        outcomes: dict[ConfigResource, dict[str, ConfigEntry] | KafkaError] = {}
        chosen = several(resources, "resources")
        known = {(int(each.type), each.name): each for each in chosen}
        for node_id, wanted in _by_node(chosen).items():
            request = DescribeConfigsRequest(
                resources=tuple(
                    DescribeConfigsResource(
                        resource_type=each.type, resource_name=each.name, configuration_keys=keys
                    )
                    for each in wanted
                )
            )
            if node_id is None:
                response = await self._call_any(request, DescribeConfigsResponse, deadline_ms)
            else:
                response = await self._call_broker(
                    node_id, request, DescribeConfigsResponse, deadline_ms
                )
            for result in response.results:
                resource = known.get((result.resource_type, result.resource_name))
                if resource is not None:
                    entries = {each.name: _entry(each) for each in result.configs}
                    outcomes[resource] = outcome(
                        result.error_code, result.error_message, resource.name, entries
                    )
        return results_of(outcomes, requested=chosen)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, ConfigValue | ConfigChange | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Alter configs incrementally: a value sets a config, None deletes it."""
        deadline_ms = self._deadline_ms(timeout)
        outcomes: dict[ConfigResource, KafkaError | None] = {}
        known = {(int(each.type), each.name): each for each in changes}
        for node_id, wanted in _by_node(changes).items():
            request = IncrementalAlterConfigsRequest(
                resources=tuple(
                    AlterConfigsResource(
                        resource_type=each.type,
                        resource_name=each.name,
                        configs=tuple(
                            _alterable(name, change) for name, change in changes[each].items()
                        ),
                    )
                    for each in wanted
                ),
                validate_only=validate_only,
            )
            if node_id is None:
                response = await self._call_controller(
                    request,
                    IncrementalAlterConfigsResponse,
                    deadline_ms,
                    lambda answer: [each.error_code for each in answer.responses],
                )
            else:
                response = await self._call_broker(
                    node_id, request, IncrementalAlterConfigsResponse, deadline_ms
                )
            for result in response.responses:
                resource = known.get((result.resource_type, result.resource_name))
                if resource is not None:
                    outcomes[resource] = outcome(
                        result.error_code, result.error_message, resource.name, None
                    )
        results_of(outcomes, requested=changes)


def _by_node(resources: Iterable[ConfigResource]) -> dict[int | None, list[ConfigResource]]:
    """Group resources by the broker to ask; None is any broker."""
    by_node: dict[int | None, list[ConfigResource]] = {}
    for each in resources:
        of_broker = each.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and each.name
        by_node.setdefault(int(each.name) if of_broker else None, []).append(each)
    return by_node


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    try:
        source: ConfigSource | int = ConfigSource(config.config_source)
    except ValueError:
        source = config.config_source
    return ConfigEntry(
        name=config.name,
        value=config.value,
        source=source,
        is_read_only=config.read_only,
        is_sensitive=config.is_sensitive,
        documentation=config.documentation or None,
    )


def _alterable(name: str, change: ConfigValue | ConfigChange | None) -> AlterableConfig:
    if not isinstance(change, ConfigChange):
        operation = ConfigOperation.DELETE if change is None else ConfigOperation.SET
        change = ConfigChange(operation, change)
    value = None if change.value is None else config_text(name, change.value)
    return AlterableConfig(name=name, config_operation=change.operation, value=value)
