"""Levels of loggers, as the REST API's `/admin/loggers` shows and sets them."""

import logging
from typing import Final

from headwater.common.ports import Clock

ROOT: Final = "root"
# log4j's names, which Kafka Connect has.
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
_NAMES: Final = {number: name for name, number in _LEVELS.items() if name != "TRACE"}


def is_level(level: str) -> bool:
    return level.upper() in _LEVELS


class LogLevels:
    """The loggers of this process with a level of their own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._modified_ms: dict[str, int] = {}
        self.explicit: dict[str, int] = {}
        """Levels that were set by request."""

    def all(self) -> dict[str, dict[str, object]]:
        """Loggers with a level, sorted by name."""
        found = {ROOT: self._shown(ROOT)}
        for name in sorted(logging.root.manager.loggerDict):
            logger = logging.root.manager.loggerDict[name]
            if isinstance(logger, logging.Logger) and logger.level != logging.NOTSET:
                found[name] = self._shown(name)
        return found

    def get(self, name: str) -> dict[str, object] | None:
        """The effective level of a logger; None if there is no such logger."""
        if name != ROOT and not isinstance(
            logging.root.manager.loggerDict.get(name), logging.Logger
        ):
            return None
        return self._shown(name)

    def set(self, name: str, level: str) -> list[str]:
        """Set the level of a logger and of those below it; return their names."""
        number = _LEVELS[level.upper()]
        below = [
            each
            for each, logger in logging.root.manager.loggerDict.items()
            if isinstance(logger, logging.Logger)
            and logger.level != logging.NOTSET
            and (name == ROOT or each.startswith(f"{name}."))
        ]
        changed = sorted({name, *below})
        for each in changed:
            logging.getLogger(None if each == ROOT else each).setLevel(number)
            self._modified_ms[each] = self._clock.now_ms()
            self.explicit[each] = number
        return changed

    def _shown(self, name: str) -> dict[str, object]:
        number = logging.getLogger(None if name == ROOT else name).getEffectiveLevel()
        return {
            "level": _NAMES.get(number, logging.getLevelName(number)),
            "last_modified": self._modified_ms.get(name),
        }
