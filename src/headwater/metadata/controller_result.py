"""What a decision of the controller is: facts to write down, and the answer for when they are.

Decisions are pure functions of the image, the request, the broker's own settings, and dice. They
change nothing. The answer must not leave before the facts are durable, and an answer without facts
not before those of earlier decisions are; `deferred_event_queue` sees to both. Where a decision is
only the beginning of what was asked for, `until` says what the answer waits for besides.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage

R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """Facts that belong together, and the answer."""

    changes: Sequence[MetadataChange]
    answer: R
    until: Callable[[ClusterImage], bool] | None = None


class ApiError(NamedTuple):
    """Why one item of a request is not done. The others are not concerned."""

    code: ErrorCode
    reason: str | None


DONE: Final = ApiError(ErrorCode.NONE, None)

OVER_QUOTA: Final = ApiError(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    "more partitions were made or deleted than controller_mutation_rate allows; try again later",
)

Spend = Callable[[int], bool]
"""Asks whether so many partitions may be made or deleted now (QU-4)."""


def unlimited(_: int) -> bool:
    return True
