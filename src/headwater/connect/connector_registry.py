"""Find connectors by name: built-in ones and those of other packages.

A package registers a connector in its `pyproject.toml`:

    [project.entry-points."headwater.sources"]
    weather = "my_package.weather:WeatherSource"
"""

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from headwater.connect.connector import Sink, Source
from headwater.spark.exceptions import InvalidOption

SOURCES: Final = "headwater.sources"
SINKS: Final = "headwater.sinks"


def known(group: str) -> dict[str, EntryPoint]:
    """Installed connectors of a kind, by name."""
    return {each.name: each for each in sorted(entry_points(group=group))}


def open_source(name: str, options: Mapping[str, str]) -> Source:
    connector = _load(SOURCES, name)(options)
    if not isinstance(connector, Source):
        raise InvalidOption(f"the connector {name} is not a Source")
    return connector


def open_sink(name: str, options: Mapping[str, str]) -> Sink:
    connector = _load(SINKS, name)(options)
    if not isinstance(connector, Sink):
        raise InvalidOption(f"the connector {name} is not a Sink")
    return connector


def _load(group: str, name: str) -> Callable[[Mapping[str, str]], object]:
    installed = known(group)
    if name not in installed:
        names = ", ".join(installed) or "none"
        raise InvalidOption(f"unknown connector {name}; installed: {names}")
    found: Callable[[Mapping[str, str]], object] = installed[name].load()
    return found
