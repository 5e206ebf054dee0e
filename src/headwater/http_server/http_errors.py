"""Base of the errors that the schema registry and the console return over HTTP.

Free of I/O and of Starlette, so that pure code can raise it.
"""

from headwater.common.exceptions import HeadwaterError


class HttpError(HeadwaterError):
    """A request is rejected with an HTTP status and a message for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
