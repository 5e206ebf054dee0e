"""What a decision can come to, besides a next state and a refusal."""

from dataclasses import dataclass

from headwater.model.errors import ErrorCode


@dataclass(frozen=True, slots=True)
class NeedsProducerId:
    """Nothing is decided: ask again with a producer id that nobody had."""


def known_to_client(code: ErrorCode, version: int, *, fenced_since: int) -> ErrorCode:
    """The code in terms that the client knows: older ones were not told PRODUCER_FENCED."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
