"""Requests to a shard that have no response yet.

Note: responding twice is allowed, and the first response counts. A request that failed with an
append has its response, but the shard does not know that and may respond again.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from headwater.common.error_codes import ErrorCode
from headwater.coordinator.runtime.append_errors import client_error
from headwater.coordinator.runtime.coordinator_effects import Caller
from headwater.protocol.api_key import ApiKey
from headwater.protocol.older_versions import Message

Outcome = Message | ErrorCode
Answer = Callable[[Outcome], None]


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that has no answer yet."""

    api: ApiKey
    answer: Answer


class PendingResponses:
    """Iterates over the callers that wait."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[Caller, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Caller]:
        return iter(self._waiting)

    def add(self, api: ApiKey, answer: Answer) -> Caller:
        caller = Caller(next(self._numbers))
        self._waiting[caller] = _Waiting(api, answer)
        return caller

    def complete(self, caller: Caller, outcome: Outcome) -> None:
        """Send the response, with errors mapped to those of the API."""
        waiting = self._waiting.pop(caller, None)
        if waiting is None:
            return
        if isinstance(outcome, ErrorCode) and waiting.api is not ApiKey.WRITE_TXN_MARKERS:
            outcome = client_error(waiting.api, outcome)
        waiting.answer(outcome)
