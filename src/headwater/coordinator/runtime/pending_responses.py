"""Who has asked a shard something and has no answer yet.

What a reader would get wrong: answering twice is no mistake. Who has heard of a failed append has
its answer, though the machine may not know that and gives another; the first one counts.
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
    """See the module. Iterates over those who wait."""

    def __init__(self) -> None:
        self._numbers = count()
        self._waiting: dict[Caller, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Caller]:
        return iter(self._waiting)

    def note(self, api: ApiKey, answer: Answer) -> Caller:
        caller = Caller(next(self._numbers))
        self._waiting[caller] = _Waiting(api, answer)
        return caller

    def give(self, caller: Caller, outcome: Outcome) -> None:
        """The answer, with errors as the clients of that API expect them."""
        waiting = self._waiting.pop(caller, None)
        if waiting is None:
            return
        if isinstance(outcome, ErrorCode) and waiting.api is not ApiKey.WRITE_TXN_MARKERS:
            outcome = client_error(waiting.api, outcome)
        waiting.answer(outcome)
