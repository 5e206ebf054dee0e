"""Installed connectors under the names that a connector's config may give.

`connector.class` is a class name, with or without its module (`FilesSource`,
`headwater.connect.files_connector.FilesSource`), or the name of an installed connector (`files`).
The latter may be a source and a sink: the one with `topics` or `topics.regex` is a sink.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import EntryPoint
from typing import Final

import headwater
from headwater.connect.connector import Sink, Source
from headwater.connect.connector_registry import SINKS, SOURCES, known, open_sink, open_source
from headwater.spark.exceptions import InvalidOption

TOPICS: Final = "topics"
TOPICS_REGEX: Final = "topics.regex"


class PluginType(StrEnum):
    """Direction of a connector; a sink reads topics."""

    SOURCE = "source"
    SINK = "sink"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPlugin:
    """An installed connector."""

    name: str
    """Name under which it is installed, such as `files`."""
    class_name: str
    """Class with its module."""
    type: PluginType
    version: str

    @property
    def short_class(self) -> str:
        return self.class_name.rpartition(".")[2]

    def open(self, options: Mapping[str, str]) -> Source | Sink:
        """Create the connector, which connects to nothing yet. Raises `InvalidOption`."""
        if self.type is PluginType.SINK:
            return open_sink(self.name, options)
        return open_source(self.name, options)

    def option_names(self) -> tuple[str, ...]:
        group = SINKS if self.type is PluginType.SINK else SOURCES
        names: tuple[str, ...] = known(group)[self.name].load().option_names
        return names


def installed_plugins() -> list[ConnectorPlugin]:
    """All connectors, sorted by class name."""
    found = [
        _plugin(entry, kind)
        for group, kind in ((SOURCES, PluginType.SOURCE), (SINKS, PluginType.SINK))
        for entry in known(group).values()
    ]
    return sorted(found, key=lambda each: (each.class_name, each.type))


def plugins_named(name: str) -> list[ConnectorPlugin]:
    """The connectors with this class name or installed name."""
    return [
        each
        for each in installed_plugins()
        if name in (each.class_name, each.short_class, each.name)
    ]


def find_plugin(name: str, config: Mapping[str, str]) -> ConnectorPlugin:
    """The connector that a config means. Raises `InvalidOption`."""
    found = plugins_named(name)
    if not found:
        classes = ", ".join(each.short_class for each in installed_plugins())
        raise InvalidOption(f"Failed to find any class that matches {name}; installed: {classes}")
    is_sink = TOPICS_REGEX in config or TOPICS in config
    wanted = PluginType.SINK if is_sink else PluginType.SOURCE
    return next((each for each in found if each.type is wanted), found[0])


def _plugin(entry: EntryPoint, kind: PluginType) -> ConnectorPlugin:
    is_ours = entry.dist is None or entry.dist.name == "headwater"
    version = headwater.__version__ if is_ours or entry.dist is None else entry.dist.version
    return ConnectorPlugin(
        name=entry.name, class_name=entry.value.replace(":", "."), type=kind, version=version
    )
