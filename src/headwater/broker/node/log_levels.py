"""Read and change log levels at run time (BROKER_LOGGER configs).

Log levels belong to this process, not to the cluster's metadata: they are not stored and end with
the process. So clients send these requests to the broker itself, not to the controller. Logger
names are Python's, levels are Kafka's.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from headwater.common.api_error import ApiError
from headwater.common.config_types import ConfigOperation, ResourceType
from headwater.common.error_codes import ErrorCode

if TYPE_CHECKING:
    # Not imported at startup: few clients send this request.
    from headwater.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        IncrementalAlterConfigsRequest,
    )

ROOT: Final = "root"
# Kafka's levels that Python names differently or lacks. TRACE is below every level in use.
_NUMBERS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}

LevelChanges = Mapping[str, str | None]
"""New levels by logger name; None removes the logger's own level."""


def is_log_level_request(request: "IncrementalAlterConfigsRequest") -> bool:
    """Whether a request is only about log levels, which each broker serves itself."""
    types = {each.resource_type for each in request.resources}
    return types == {ResourceType.BROKER_LOGGER}


def broker_error(name: str, node_id: int) -> ApiError | None:
    """Return an error unless the request is about this broker's own loggers."""
    if name == str(node_id):
        return None
    reason = f"this is broker {node_id}, which cannot change log levels of broker {name!r}"
    return ApiError(ErrorCode.INVALID_REQUEST, reason)


def validate_changes(
    changes: Sequence["AlterableConfig"], known: Mapping[str, str]
) -> LevelChanges | ApiError:
    """Validate changes; one invalid change rejects all of them."""
    if len({each.name for each in changes}) < len(changes):
        return ApiError(ErrorCode.INVALID_REQUEST, "duplicate logger names in the request")
    levels: dict[str, str | None] = {}
    for change in changes:
        error = _change_error(change, known)
        if error is not None:
            return error
        is_set = change.config_operation == ConfigOperation.SET
        levels[change.name] = change.value if is_set else None
    return levels


def _change_error(change: "AlterableConfig", known: Mapping[str, str]) -> ApiError | None:
    operation, name, level = change.config_operation, change.name, change.value
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        return ApiError(ErrorCode.INVALID_REQUEST, "log levels support only SET and DELETE")
    if operation == ConfigOperation.SET and level is None:
        return ApiError(ErrorCode.INVALID_REQUEST, f"no value for log level of {name}")
    if name not in known:
        return ApiError(ErrorCode.INVALID_CONFIG, f"unknown logger {name}")
    if operation == ConfigOperation.SET and level not in _NUMBERS:
        reason = f"{level!r} is not a log level; use one of {', '.join(_NUMBERS)}"
        return ApiError(ErrorCode.INVALID_CONFIG, reason)
    if operation == ConfigOperation.DELETE and name == ROOT:
        return ApiError(ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be deleted")
    return None


def current_levels() -> dict[str, str]:
    """Return the effective level of every logger of this process."""
    names = _names()
    levels = {name: _level_of(logging.getLogger(name)) for name in names}
    return {ROOT: _level_of(logging.getLogger()), **levels}


def set_levels(changes: LevelChanges) -> None:
    for name, level in changes.items():
        logger = logging.getLogger() if name == ROOT else logging.getLogger(name)
        logger.setLevel(logging.NOTSET if level is None else _NUMBERS[level])


def _names() -> list[str]:
    """All loggers and their parent packages."""
    names: dict[str, None] = {}
    for name in logging.root.manager.loggerDict:
        parts = name.split(".")
        names |= dict.fromkeys(".".join(parts[:count]) for count in range(1, len(parts) + 1))
    return sorted(names)


def _level_of(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((level for level, least in _NUMBERS.items() if number >= least), "TRACE")
