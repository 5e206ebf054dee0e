"""Error of one item of a request: an error code and a message (Kafka's ApiError)."""

from typing import Final, NamedTuple

from headwater.common.error_codes import ErrorCode


class ApiError(NamedTuple):
    """Error of one item of a request; other items are not affected."""

    code: ErrorCode
    reason: str | None


NO_ERROR: Final = ApiError(ErrorCode.NONE, None)
