"""Where a hosted shard is in its life, what may follow, and what a request hears meanwhile."""

from collections.abc import Mapping
from enum import Enum
from typing import Final

from headwater.model.errors import ErrorCode


class ShardState(Enum):
    """A shard that fails by our own fault, or cannot be loaded, may be loaded again."""

    QUEUED = "queued"
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


TRANSITIONS: Final[Mapping[ShardState, tuple[ShardState, ...]]] = {
    ShardState.QUEUED: (ShardState.LOADING, ShardState.CLOSED),
    ShardState.LOADING: (ShardState.ACTIVE, ShardState.FAILED, ShardState.CLOSED),
    ShardState.ACTIVE: (ShardState.FAILED, ShardState.CLOSED),
    ShardState.FAILED: (ShardState.LOADING, ShardState.CLOSED),
    ShardState.CLOSED: (),
}

REFUSALS: Final[Mapping[ShardState, ErrorCode]] = {
    ShardState.QUEUED: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ShardState.FAILED: ErrorCode.NOT_COORDINATOR,
    ShardState.CLOSED: ErrorCode.NOT_COORDINATOR,
}
"""Only an active shard takes requests."""
