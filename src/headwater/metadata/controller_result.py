"""Result of a controller decision: changes to write and the response after that.

Decisions are pure functions of the image, the request, the broker's settings and a random source.
The response must not be sent before the changes are written, and a response without changes not
before those of earlier decisions; `deferred_event_queue` ensures both. If a decision only starts an
operation, `until` is the condition that the response waits for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from headwater.common.api_error import ApiError
from headwater.common.error_codes import ErrorCode
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage

R = TypeVar("R", covariant=True)


@dataclass(frozen=True, slots=True)
class ControllerResult(Generic[R]):
    """Changes that are written together, and the response."""

    changes: Sequence[MetadataChange]
    answer: R
    until: Callable[[ClusterImage], bool] | None = None


OVER_QUOTA: Final = ApiError(
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    "the controller_mutation_rate quota is exceeded; retry later",
)

Spend = Callable[[int], bool]
"""Returns whether the quota allows creating or deleting a number of partitions now (QU-4)."""


def unlimited(_: int) -> bool:
    return True
