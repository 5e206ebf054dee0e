"""Where a hosted shard is in its life, what may follow, and what a request hears meanwhile."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from headwater.common.error_codes import ErrorCode


class CoordinatorState(Enum):
    """A shard that fails by our own fault, or cannot be loaded, may be loaded again."""

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

REFUSALS: Final[Mapping[CoordinatorState, ErrorCode]] = {
    CoordinatorState.QUEUED: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    CoordinatorState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    CoordinatorState.FAILED: ErrorCode.NOT_COORDINATOR,
    CoordinatorState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""Only an active shard takes requests."""
