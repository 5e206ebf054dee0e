"""Finding connectors by name: those that come along, and those of other packages.

A package says in its `pyproject.toml` that it has one:

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
    """The connectors of a kind, by name."""
    return {each.name: each for each in sorted(entry_points(group=group))}


def open_source(name: str, options: Mapping[str, str]) -> Source:
    made = _load(SOURCES, name)(options)
    if not isinstance(made, Source):
        raise InvalidOption(f"the connector {name} is no Source")
    return made


def open_sink(name: str, options: Mapping[str, str]) -> Sink:
    made = _load(SINKS, name)(options)
    if not isinstance(made, Sink):
        raise InvalidOption(f"the connector {name} is no Sink")
    return made


def _load(group: str, name: str) -> Callable[[Mapping[str, str]], object]:
    there = known(group)
    if name not in there:
        names = ", ".join(there) or "none"
        raise InvalidOption(f"no connector is called {name}; there are: {names}")
    found: Callable[[Mapping[str, str]], object] = there[name].load()
    return found
