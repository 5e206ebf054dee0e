"""Configs as rows: what is set, and where each value comes from."""

from collections.abc import Iterable
from dataclasses import dataclass

from headwater.client.admin.descriptions import ConfigEntry
from headwater.common.config_types import ConfigSource

_OF_THE_RESOURCE = frozenset(
    {
        ConfigSource.TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.GROUP_CONFIG,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One config. A sensitive one has no value to show."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_own: bool
    """Set on this very resource, so that it can be taken back."""
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


def config_rows(entries: Iterable[ConfigEntry]) -> tuple[ConfigRow, ...]:
    """Those that somebody has set come first."""
    rows = [
        ConfigRow(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            source=_words(each.source),
            is_default=each.is_default,
            is_own=each.source in _OF_THE_RESOURCE,
            is_read_only=each.is_read_only,
            is_sensitive=each.is_sensitive,
            documentation=each.documentation,
        )
        for each in entries
    ]
    return tuple(sorted(rows, key=lambda row: (not row.is_own, row.is_default, row.name)))


def _words(source: ConfigSource | int) -> str:
    if not isinstance(source, ConfigSource):
        return str(source)
    return source.name.removesuffix("_CONFIG").lower().replace("_", " ")
