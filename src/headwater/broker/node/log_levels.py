"""What a broker logs, changed while it runs: the loggers of its process as Kafka's BROKER_LOGGER.

What a reader would get wrong: levels are nobody's facts. They are this process's, are not kept, and
end with it; so whoever wants them changed asks the broker itself and not the controller. Names are
those of Python's loggers, levels are Kafka's.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headwater.common.config_types import ConfigOperation, ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.metadata.controller_result import ApiError

if TYPE_CHECKING:
    # A broker starts without what few of its clients will ask for.
    from headwater.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        IncrementalAlterConfigsRequest,
    )

ROOT: Final = "root"
# What Python calls otherwise or not at all; the last is below all that anything is logged with.
_NUMBERS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}

LevelChanges = Mapping[str, str | None]
"""New levels by the names of loggers; None for one that has no level of its own any more."""


def is_about_loggers(request: "IncrementalAlterConfigsRequest") -> bool:
    """Whether a request is one that each broker answers for itself."""
    types = {each.resource_type for each in request.resources}
    return types == {ResourceType.BROKER_LOGGER}


def refuse_broker(name: str, node_id: int) -> ApiError | None:
    """Why this broker says nothing about the loggers of a broker."""
    if name == str(node_id):
        return None
    reason = f"this is broker {node_id}, which knows nothing of the loggers of broker {name!r}"
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def judged(
    changes: Sequence["AlterableConfig"], known: Mapping[str, str]
) -> LevelChanges | ApiError:
    """What is to be changed, or why nothing is: one bad change spoils them all."""
    if len({each.name for each in changes}) < len(changes):
        return ApiError(ErrorCode.INVALID_REQUEST, "a logger may stand in a request only once")
    levels: dict[str, str | None] = {}
    for change in changes:
        refusal = _refuse_change(change, known)
        if refusal is not None:
            return refusal
        is_set = change.config_operation == ConfigOperation.SET
        levels[change.name] = change.value if is_set else None
    return levels


def _refuse_change(change: "AlterableConfig", known: Mapping[str, str]) -> ApiError | None:
    operation, name, level = change.config_operation, change.name, change.value
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        return ApiError(ErrorCode.INVALID_REQUEST, "a level can be set and deleted, nothing else")
    if operation == ConfigOperation.SET and level is None:
        return ApiError(ErrorCode.INVALID_REQUEST, f"no level for {name}")
    if name not in known:
        return ApiError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if operation == ConfigOperation.SET and level not in _NUMBERS:
        reason = f"{level!r} is no level; there are {', '.join(_NUMBERS)}"
        return ApiError(ErrorCode.INVALID_CONFIG, reason)
    if operation == ConfigOperation.DELETE and name == ROOT:
        return ApiError(ErrorCode.INVALID_REQUEST, "the root logger must have a level")
    return None


def present_levels() -> dict[str, str]:
    """The level that is in force for every logger of this process."""
    names = _names()
    levels = {name: _level_of(logging.getLogger(name)) for name in names}
    return {ROOT: _level_of(logging.getLogger()), **levels}


def set_levels(changes: LevelChanges) -> None:
    for name, level in changes.items():
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if level is None else _NUMBERS[level])


def _names() -> list[str]:
    """All loggers, and the packages above them, by which many are changed at once."""
    names: dict[str, None] = {}
    for name in logging.root.manager.loggerDict:
        parts = name.split(".")
        names |= dict.fromkeys(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return sorted(names)


def _level_of(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((level for level, least in _NUMBERS.items() if number >= least), "TRACE")
