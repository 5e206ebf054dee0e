"""Answers about properties: Kafka Connect's `ConfigInfos` and `ConfigKeyInfo`."""

from collections.abc import Mapping
from typing import Any, Final

from headwater.connect.runtime import connector_config as names
from headwater.connect.runtime.connector_config import (
    ConfigProblem,
    InvalidConnectorConfig,
    common_names,
    read_connector_config,
)
from headwater.connect.runtime.connector_plugins import TOPICS, TOPICS_REGEX, ConnectorPlugin

_COMMON: Final = "Common"
_ERRORS: Final = "Error Handling"
_OPTIONS: Final = "Options"
# Type, default and documentation; without a default, a property is required.
_KNOWN: Final[Mapping[str, tuple[str, str | None, str]]] = {
    names.NAME: ("STRING", None, "Unique name of the connector."),
    names.CONNECTOR_CLASS: ("STRING", None, "Class or installed name of the connector."),
    names.TASKS_MAX: ("INT", "1", "Accepted for compatibility: a connector has one task."),
    names.TOPIC: ("STRING", "", "Topic that a source writes to, unless it names topics itself."),
    names.KEY: ("STRING", "", "Column with the record key."),
    names.POLL_INTERVAL: ("LONG", "5000", "How long a source waits if there is nothing new."),
    names.CREATION_PARTITIONS: ("INT", "-1", "Partitions of a topic that is created."),
    names.CREATION_REPLICATION: ("SHORT", "-1", "Replication factor of a topic that is created."),
    TOPICS: ("LIST", "", "Topics that a sink reads, separated by commas."),
    TOPICS_REGEX: ("STRING", "", "Regular expression of the topics that a sink reads."),
    names.SCHEMA: ("STRING", "", "Columns of JSON values, such as id bigint, name string."),
    names.BATCH_MAX_RECORDS: ("INT", "10000", "Most records of a batch of a sink."),
    names.RETRY_TIMEOUT: ("LONG", "0", "How long a failed task is restarted; -1 without end."),
    names.RETRY_DELAY: ("LONG", "60000", "Longest delay between two restarts of a failed task."),
}
_GROUPS: Final = {names.RETRY_TIMEOUT: _ERRORS, names.RETRY_DELAY: _ERRORS}


def config_infos(plugin: ConnectorPlugin, given: Mapping[str, str]) -> dict[str, Any]:
    """Validate a config: every property with its value and errors."""
    try:
        read_connector_config(given)
        problems: list[ConfigProblem] = []
    except InvalidConnectorConfig as error:
        problems = error.problems
    definitions = config_keys(plugin)
    known = {each["name"] for each in definitions}
    others = [each.name for each in problems if each.name not in known]
    definitions += [_definition(name, len(definitions)) for name in dict.fromkeys(others)]
    return {
        "name": plugin.class_name,
        "error_count": len(problems),
        "groups": [_COMMON, _ERRORS, _OPTIONS],
        "configs": [
            {"definition": each, "value": _value(each, given, problems)} for each in definitions
        ],
    }


def config_keys(plugin: ConnectorPlugin) -> list[dict[str, Any]]:
    """The definitions of all properties of a connector."""
    own = plugin.option_names()
    every = dict.fromkeys((*common_names(plugin.type), *own))
    return [_definition(name, order) for order, name in enumerate(every, 1)]


def invalid_config_message(problems: list[ConfigProblem]) -> str:
    """The message of Kafka Connect's answer to an invalid config."""
    lines = "\n".join(f"{each.name}: {each.message}" for each in problems)
    return (
        f"Connector configuration is invalid and contains the following {len(problems)} "
        f"error(s):\n{lines}\nYou can also find the above list of errors at the endpoint "
        "`/connector-plugins/{connectorType}/config/validate`"
    )


def _definition(name: str, order: int) -> dict[str, Any]:
    kind, default, documentation = _KNOWN.get(name, ("STRING", "", ""))
    return {
        "name": name,
        "type": kind,
        "required": default is None,
        "default_value": default or None,
        "importance": "HIGH" if default is None else "MEDIUM",
        "documentation": documentation,
        "group": _GROUPS.get(name, _COMMON if name in _KNOWN else _OPTIONS),
        "width": "MEDIUM",
        "display_name": name,
        "dependents": [],
        "order": order,
    }


def _value(
    definition: Mapping[str, Any], given: Mapping[str, str], problems: list[ConfigProblem]
) -> dict[str, Any]:
    name = definition["name"]
    return {
        "name": name,
        "value": given.get(name, definition["default_value"]),
        "recommended_values": [],
        "errors": [each.message for each in problems if each.name == name],
        "visible": True,
    }
