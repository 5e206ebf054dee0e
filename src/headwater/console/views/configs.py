"""Configs as rows, with the source of each value."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headwater.client.admin.descriptions import ConfigEntry
from headwater.common.config_types import ConfigSource
from headwater.common.settings.broker_settings import settings_of_brokers
from headwater.common.settings.topic_synonyms import TOPIC_SETTINGS

_OWN_SOURCES = frozenset(
    {
        ConfigSource.TOPIC_CONFIG,
        ConfigSource.DYNAMIC_BROKER_CONFIG,
        ConfigSource.GROUP_CONFIG,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One config. A sensitive one has no value."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_own: bool
    """Set on this resource, so that it can be reset."""
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None


_DOCS: Final = {
    # The broker's default of a topic config has the same meaning.
    **{name: each.doc for each in TOPIC_SETTINGS.values() for name in each.synonyms},
    **{name: each.doc for name, each in TOPIC_SETTINGS.items()},
    **{name: each.doc for name, each in settings_of_brokers().items() if each.doc},
}


def config_rows(entries: Iterable[ConfigEntry]) -> tuple[ConfigRow, ...]:
    """Rows sorted with explicitly set configs first."""
    rows = [
        ConfigRow(
            name=each.name,
            value=None if each.is_sensitive else each.value,
            source=_words(each.source),
            is_default=each.is_default,
            is_own=each.source in _OWN_SOURCES,
            is_read_only=each.is_read_only,
            is_sensitive=each.is_sensitive,
            # Brokers may leave it out.
            documentation=each.documentation or _DOCS.get(each.name),
        )
        for each in entries
    ]
    return tuple(sorted(rows, key=lambda row: (not row.is_own, row.is_default, row.name)))


def _words(source: ConfigSource | int) -> str:
    if not isinstance(source, ConfigSource):
        return str(source)
    return source.name.removesuffix("_CONFIG").lower().replace("_", " ")
