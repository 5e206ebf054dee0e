"""Parse lines into records: headers, key and value with separators, or JSON. Pure.

    origin=Assam,cups=2;kind|black      headers before `;`, the key before `|`, then the value
    {"key": "kind", "value": "black"}   as `headwater consume --json` prints it

Note: with a separator, every line must contain it. A record sent without its key would silently
go to an arbitrary partition.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
Typed = Callable[[bytes], Any]
"""Converts the bytes in a line to the object that the serializer expects."""

_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|[ntr0\\])")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
_FIELDS: Final = frozenset({"topic", "partition", "offset", "timestamp", "key", "value", "headers"})


class LineRecord(NamedTuple):
    """The fields of a record, as parsed from one line."""

    value: Any
    key: Any
    headers: Headers
    timestamp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """How to parse lines. `read` raises `ValueError` for a malformed line."""

    key_separator: str | None = None
    headers_separator: str | None = None
    null: bytes | None = None
    is_json: bool = False
    headers: Headers = ()
    """Added to every record, before the headers of the line."""
    typed_key: Typed = bytes
    typed_value: Typed = bytes

    def read(self, line: bytes) -> LineRecord:
        if self.is_json:
            return self._read_json(line)
        own, line = self._split(line, self.headers_separator, "headers")
        key, value = self._split(line, self.key_separator, "key")
        return LineRecord(
            None if value == self.null else self.typed_value(value),
            None if key is None or key == self.null else self.typed_key(key),
            (*self.headers, *self._headers(own)),
        )

    def _split(self, line: bytes, separator: str | None, what: str) -> tuple[bytes | None, bytes]:
        if separator is None:
            return None, line
        before, is_there, after = line.partition(separator.encode())
        if not is_there:
            raise ValueError(f"no separator {separator!r} after the {what}")
        return before, after

    def _headers(self, raw: bytes | None) -> Headers:
        if not raw:
            return ()
        found = []
        for each in raw.split(b","):
            name, is_pair, value = each.partition(b"=")
            if not is_pair:
                raise ValueError(f"{each.decode(errors='replace')!r} is not a header name=value")
            found.append((name.decode(), None if value == self.null else value))
        return tuple(found)

    def _read_json(self, line: bytes) -> LineRecord:
        found = json.loads(line)
        if not isinstance(found, dict):
            raise ValueError("not a JSON object")
        if unknown := found.keys() - _FIELDS:
            raise ValueError(f"unknown field of a record: {', '.join(sorted(unknown))}")
        timestamp = found.get("timestamp")
        if timestamp is not None and not isinstance(timestamp, int):
            raise ValueError(f"{timestamp!r} is not a timestamp in milliseconds")
        key, value = json_bytes(found.get("key")), json_bytes(found.get("value"))
        return LineRecord(
            None if value is None else self.typed_value(value),
            None if key is None else self.typed_key(key),
            (*self.headers, *_json_headers(found.get("headers") or ())),
            timestamp,
        )


def _json_headers(given: object) -> Headers:
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list | tuple):
        raise ValueError("headers must be a list of pairs")
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"{pair!r} is not a header [name, value]")
    return tuple((name, json_bytes(value)) for name, value in pairs)


def json_bytes(given: Any) -> bytes | None:
    """Encode a JSON value: text as UTF-8, {"base64": ...} decoded, the rest as JSON."""
    match given:
        case None:
            return None
        case str():
            return given.encode()
        case {"base64": str(text), **others} if not others:
            try:
                return base64.b64decode(text, validate=True)
            except binascii.Error as error:
                raise ValueError(f"{text!r} is not base64") from error
        case _:
            return json.dumps(given, separators=(",", ":"), ensure_ascii=False).encode()


def unescaped(text: str) -> str:
    r"""Replace the escapes \n, \t, \r, \0, \xNN and \\."""

    def replacement(found: re.Match[str]) -> str:
        what = found[1]
        return _ESCAPED[what] if what in _ESCAPED else chr(int(what[1:], 16))

    return _ESCAPE.sub(replacement, text)
