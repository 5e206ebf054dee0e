"""Where to begin when there is no position: `auto.offset.reset`.

    earliest   latest   none   by_duration:PT6H

The last one is of KIP-1106: the first record that is not older than the duration, which is written
as ISO 8601 has it, with days, hours, minutes and seconds.
"""

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from headwater.common.config_types import ConfigType
from headwater.common.settings.setting_types import SettingType

# What ListOffsets calls these places.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.ASCII
)
_BY_DURATION: Final = "by_duration:"


@dataclass(frozen=True, slots=True)
class AutoOffsetReset:
    """A rule. `name` is none, earliest, latest or by_duration."""

    name: str
    duration_ms: int = 0

    EARLIEST: ClassVar["AutoOffsetReset"]
    LATEST: ClassVar["AutoOffsetReset"]
    NONE: ClassVar["AutoOffsetReset"]

    def timestamp(self, now_ms: int) -> int:
        """What to ask ListOffsets for."""
        match self.name:
            case "earliest":
                return EARLIEST_TIMESTAMP
            case "latest":
                return LATEST_TIMESTAMP
            case _:
                return max(now_ms - self.duration_ms, 0)


AutoOffsetReset.EARLIEST = AutoOffsetReset("earliest")
AutoOffsetReset.LATEST = AutoOffsetReset("latest")
AutoOffsetReset.NONE = AutoOffsetReset("none")


def offset_reset() -> SettingType[str]:
    """A rule as it is written; what cannot be read is refused."""

    def check(text: str) -> str:
        parse_offset_reset(text)
        return text

    return SettingType(ConfigType.STRING, check)


def parse_offset_reset(text: str) -> AutoOffsetReset:
    if text in ("earliest", "latest", "none"):
        return AutoOffsetReset(text)
    if text.startswith(_BY_DURATION):
        return AutoOffsetReset("by_duration", parse_duration(text.removeprefix(_BY_DURATION)))
    raise ValueError("must be earliest, latest, none or by_duration:<ISO 8601 duration>")


def parse_duration(text: str) -> int:
    """A duration of ISO 8601 in milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()) or text.endswith("T"):
        raise ValueError("must have a duration such as PT6H or P2DT30M after by_duration:")
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
