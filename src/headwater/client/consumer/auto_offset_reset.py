"""`auto.offset.reset`: where to start without a valid committed offset.

    earliest   latest   none   by_duration:PT6H

The last form (KIP-1106) is the first record not older than an ISO 8601 duration with days, hours,
minutes and seconds.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

from headwater.common.config_types import ConfigType
from headwater.common.settings.setting_types import SettingType

# Special timestamps of ListOffsets.
LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2

_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.ASCII
)
_BY_DURATION: Final = "by_duration:"


@dataclass(frozen=True, slots=True)
class AutoOffsetReset:
    """A reset strategy. `name` is none, earliest, latest or by_duration."""

    name: str
    duration_ms: int = 0

    EARLIEST: ClassVar["AutoOffsetReset"]
    LATEST: ClassVar["AutoOffsetReset"]
    NONE: ClassVar["AutoOffsetReset"]

    def timestamp(self, now_ms: int) -> int:
        """The timestamp for ListOffsets."""
        match self.name:
            case "earliest":
                return EARLIEST_TIMESTAMP
            case "latest":
                return LATEST_TIMESTAMP
            case _:
                return max(now_ms - self.duration_ms, 0)


class OutOfRangeAction(Enum):
    """What a consumer does after OFFSET_OUT_OF_RANGE."""

    FETCH_FROM_LEADER = "fetch from leader"
    RETRY = "retry"
    RESET = "reset"
    FAIL = "fail"


def on_offset_out_of_range(
    strategy: AutoOffsetReset, *, is_from_follower: bool, has_buffered: bool
) -> OutOfRangeAction:
    """Decide what to do after OFFSET_OUT_OF_RANGE.

    A follower may be behind, so the leader is asked first (KIP-392). Buffered records are returned
    to the application before the position is reset; the error recurs when they are consumed.
    """
    if is_from_follower:
        return OutOfRangeAction.FETCH_FROM_LEADER
    if has_buffered:
        return OutOfRangeAction.RETRY
    if strategy == AutoOffsetReset.NONE:
        return OutOfRangeAction.FAIL
    return OutOfRangeAction.RESET


AutoOffsetReset.EARLIEST = AutoOffsetReset("earliest")
AutoOffsetReset.LATEST = AutoOffsetReset("latest")
AutoOffsetReset.NONE = AutoOffsetReset("none")


def offset_reset() -> SettingType[str]:
    """The type of the setting: a valid reset strategy."""

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
    """An ISO 8601 duration in milliseconds."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()) or text.endswith("T"):
        raise ValueError("must have a duration such as PT6H or P2DT30M after by_duration:")
    days, hours, minutes, seconds = (float(each or 0) for each in found.groups())
    return int((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000)
