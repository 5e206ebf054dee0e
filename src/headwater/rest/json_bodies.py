"""JSON of requests and responses: strict parsing, and streams of objects."""

import json
import re
from typing import Any, Final

from headwater.rest.rest_errors import RestProxyError

_STRUCTURE: Final = re.compile(rb'[{}\[\]"]')
_IN_STRING: Final = re.compile(rb'["\\]')
_SPACE: Final = b" \t\r\n"


def parse_body(raw: bytes) -> Any:
    """Parse JSON; 400 if it is invalid or has text that UTF-8 cannot encode."""
    try:
        found = json.loads(raw, parse_constant=_reject_constant)
        if b"\\u" in raw:
            # JSON can contain unpaired surrogates.
            json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise RestProxyError(400, f"The request body is not valid JSON: {error}") from None
    return found


def encode_body(answer: Any) -> bytes:
    text = json.dumps(answer, separators=(",", ":"), ensure_ascii=False)
    # A record can contain unpaired surrogates, which UTF-8 cannot encode.
    return text.encode("utf-8", "replace")


class JsonObjects:
    """Split a stream of concatenated JSON objects. The time is linear in its length.

    Note: the parser of the standard library does not tell an incomplete object from an invalid
    one, so the ends of objects are found here.
    """

    def __init__(self, *, bytes_max: int) -> None:
        """`bytes_max` limits one object."""
        self._bytes_max = bytes_max
        self._buffer = bytearray()
        self._position = 0
        self._depth = 0
        self._is_in_string = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the objects that this chunk completes. `RestProxyError` ends the stream."""
        self._buffer += chunk
        found = []
        while (end := self._next_end()) is not None:
            self._check_size(end)
            found.append(bytes(self._buffer[:end]))
            del self._buffer[:end]
            self._position = 0
        self._check_size(len(self._buffer))
        return found

    def check_end(self) -> None:
        """The stream has ended; 400 within an object."""
        if self._depth or self._buffer.strip(_SPACE):
            raise RestProxyError(400, "The request body ends within a JSON object.")

    def _check_size(self, size: int) -> None:
        if size > self._bytes_max:
            raise RestProxyError(413, f"A record exceeds {self._bytes_max} bytes.")

    def _next_end(self) -> int | None:
        """The position after the first object; None if it is incomplete."""
        if self._depth == 0 and not self._has_start():
            return None
        while True:
            pattern = _IN_STRING if self._is_in_string else _STRUCTURE
            match = pattern.search(self._buffer, self._position)
            if match is None:
                self._position = len(self._buffer)
                return None
            at = match.start()
            token = self._buffer[at]
            if token == 0x5C:
                if at + 1 >= len(self._buffer):
                    # The escaped character is in the next chunk.
                    self._position = at
                    return None
                self._position = at + 2
                continue
            self._position = at + 1
            if token == 0x22:
                self._is_in_string = not self._is_in_string
            elif token in b"{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth == 0:
                    return at + 1

    def _has_start(self) -> bool:
        """Skip white space; an object must follow."""
        spaces = len(self._buffer) - len(self._buffer.lstrip(_SPACE))
        del self._buffer[:spaces]
        self._position = 0
        if self._buffer and self._buffer[0] != 0x7B:
            raise RestProxyError(400, "The request body must be a sequence of JSON objects.")
        return bool(self._buffer)


def _reject_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")
