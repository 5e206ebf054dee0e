"""Settings of a single group, under Kafka's names.

Each overrides a broker setting, which is named beside it.

Note: the bounds are broker settings too, and apply to the broker's own value as to a group's.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, Self

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.setting_types import SettingType, integer
from headwater.common.settings.topic_settings import kafka_name


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetting:
    """Declaration of one setting, without its value."""

    kind: SettingType[int]
    synonym: str
    """Broker setting that applies if the group has none."""


GROUP_SETTINGS: Final[Mapping[str, GroupSetting]] = {
    name: GroupSetting(kind=integer(1), synonym=f"group.{name}")
    for name in ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Effective settings of one group; a field is its setting, with underscores."""

    consumer_heartbeat_interval_ms: int
    consumer_session_timeout_ms: int

    @classmethod
    def of(cls, settings: BrokerSettings) -> Self:
        """Return the settings of a group without overrides."""
        return cls(
            consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
            consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        )

    def with_overrides(self, overrides: Mapping[str, str]) -> Self:
        """Apply a group's overrides; raise `InvalidSetting` for a wrong name or value."""
        values = {
            name.replace(".", "_"): parse_group_value(name, text)
            for name, text in overrides.items()
        }
        return replace(self, **values)

    def check(self, settings: BrokerSettings) -> None:
        """Raise `InvalidSetting` if a value is out of bounds or inconsistent."""
        for value_ms, low_ms, high_ms, name in (
            (
                self.consumer_heartbeat_interval_ms,
                settings.group_consumer_min_heartbeat_interval_ms,
                settings.group_consumer_max_heartbeat_interval_ms,
                "heartbeat.interval.ms",
            ),
            (
                self.consumer_session_timeout_ms,
                settings.group_consumer_min_session_timeout_ms,
                settings.group_consumer_max_session_timeout_ms,
                "session.timeout.ms",
            ),
        ):
            if not low_ms <= value_ms <= high_ms:
                raise InvalidSetting(
                    f"consumer.{name}={value_ms}: must be between {low_ms} and {high_ms}, which "
                    f"are group.consumer.min.{name} and group.consumer.max.{name} of the broker"
                )
        if self.consumer_session_timeout_ms <= self.consumer_heartbeat_interval_ms:
            raise InvalidSetting(
                "consumer.session.timeout.ms must be longer than consumer.heartbeat.interval.ms"
            )


def parse_group_value(name: str, text: str) -> int:
    """Parse one value, or raise `InvalidSetting` that says what is allowed."""
    setting = GROUP_SETTINGS.get(name)
    if setting is None:
        near = difflib.get_close_matches(name, GROUP_SETTINGS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InvalidSetting(f"unknown group setting {name}{hint}")
    try:
        return setting.kind.parse(text.strip())
    except ValueError as error:
        raise InvalidSetting(f"{name}={text}: {error}") from error


assert {kafka_name(field.name) for field in fields(GroupSettings)} == set(GROUP_SETTINGS)
