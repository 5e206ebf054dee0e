"""States of a coordinator shard and their transitions."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode


class CoordinatorState(Enum):
    """A shard that failed may be loaded again."""

    QUEUED = "queued"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[CoordinatorState, tuple[CoordinatorState, ...]]] = {
    CoordinatorState.QUEUED: (CoordinatorState.LOADING, CoordinatorState.CLOSED),
    CoordinatorState.LOADING: (
        CoordinatorState.ACTIVE,
        CoordinatorState.FAILED,
        CoordinatorState.CLOSED,
    ),
    CoordinatorState.ACTIVE: (CoordinatorState.FAILED, CoordinatorState.CLOSED),
    CoordinatorState.FAILED: (CoordinatorState.LOADING, CoordinatorState.CLOSED),
    CoordinatorState.CLOSED: (),
}

ERRORS_BY_STATE: Final[Mapping[CoordinatorState, ErrorCode]] = {
    CoordinatorState.QUEUED: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    CoordinatorState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    CoordinatorState.FAILED: ErrorCode.NOT_COORDINATOR,
    CoordinatorState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""Errors for requests in states other than ACTIVE."""
