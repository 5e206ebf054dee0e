"""Render bytes as text, JSON or hex, or with a schema from the registry.

Note: JSON is only indented, never parsed and serialized again. `1.10` stays `1.10`, and a duplicate
key is shown twice, because that is what the record contains.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from headwater.common.exceptions import HeadwaterError

FORMATS: Final = ("auto", "text", "json", "hex", "avro", "protobuf")
REGISTERED_FORMATS: Final = {"avro": "Avro", "protobuf": "Protobuf"}
"""Formats that need a schema registry, and their names."""
JSON_BYTES_MAX: Final = 1_000_000
PREFIX_BYTES: Final = 5
"""A zero byte and the schema id."""

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_HEX_ROW_BYTES: Final = 16
_HEX_ROW_CHARS: Final = 76


@dataclass(frozen=True, slots=True)
class Registered:
    """A value written with a schema from the registry. For JSON, `value` is unused."""

    schema_type: str
    value: Any = None


ReadRegistered = Callable[[bytes], Registered]
"""Deserialize; raises `HeadwaterError` if the registry or the value does not allow it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Rendered bytes. `note` says why they are not in the requested format."""

    format: str
    text: str
    size_bytes: int
    is_cut: bool = False
    schema_id: int | None = None
    note: str | None = None


def shown(
    raw: bytes | None, wanted: str, *, chars_max: int, read: ReadRegistered | None = None
) -> Shown:
    """Render bytes in the requested format, or in one that fits."""
    if raw is None:
        return Shown(format="null", text="", size_bytes=0)
    match wanted:
        case "hex":
            return _hex(raw, chars_max)
        case "text":
            return _cut("text", raw.decode("utf-8", "backslashreplace"), raw, chars_max)
        case "json":
            found = _json(raw, chars_max) or _json_with_schema(raw, chars_max, read)
            return found or _plain(raw, chars_max, note="not JSON")
        case "avro" | "protobuf":
            name = REGISTERED_FORMATS[wanted]
            if read is None:
                return _plain(raw, chars_max, note=f"{name} needs a schema registry (--registry)")
            return _registered(raw, chars_max, read, name)
        case _:
            return _guessed(raw, chars_max, read)


def _guessed(raw: bytes, chars_max: int, read: ReadRegistered | None) -> Shown:
    if read is not None and _is_framed(raw):
        return _registered(raw, chars_max, read, "a value with a schema")
    if raw[:1] in (b"{", b"["):
        return _json(raw, chars_max) or _plain(raw, chars_max)
    return _plain(raw, chars_max)


def _plain(raw: bytes, chars_max: int, *, note: str | None = None) -> Shown:
    """As text if it is UTF-8 without zero bytes, else as hex."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return _hex(raw, chars_max, note=note)
    if "\0" in text:
        return _hex(raw, chars_max, note=note)
    return _cut("text", text, raw, chars_max, note=note)


def _json(raw: bytes, chars_max: int, *, skipped: int = 0) -> Shown | None:
    """As JSON after `skipped` bytes of schema prefix; None if it is not JSON."""
    if len(raw) > JSON_BYTES_MAX:
        return None
    try:
        text = raw[skipped:].decode("utf-8")
        json.loads(text)
    except (ValueError, RecursionError):
        return None
    schema_id = _schema_id(raw) if skipped else None
    return _cut("json", indented(text, chars_max=chars_max), raw, chars_max, schema_id=schema_id)


def _json_with_schema(raw: bytes, chars_max: int, read: ReadRegistered | None) -> Shown | None:
    if read is None or not _is_framed(raw):
        return None
    found = _registered(raw, chars_max, read, "JSON")
    return found if found.format == "json" else None


def _registered(raw: bytes, chars_max: int, read: ReadRegistered, what: str) -> Shown:
    try:
        found = read(raw)
    except HeadwaterError as error:
        return _plain(raw, chars_max, note=f"not {what}: {error}")
    if found.schema_type == "JSON":
        shown = _json(raw, chars_max, skipped=PREFIX_BYTES)
        return shown or _plain(raw, chars_max, note="not JSON, although its schema is JSON")
    text = json.dumps(found.value, indent=2, ensure_ascii=False, default=_other)
    kind = "protobuf" if found.schema_type == "PROTOBUF" else "avro"
    return _cut(kind, text, raw, chars_max, schema_id=_schema_id(raw))


def _is_framed(raw: bytes) -> bool:
    return len(raw) >= PREFIX_BYTES and raw[0] == 0


def _schema_id(raw: bytes) -> int:
    return int.from_bytes(raw[1:PREFIX_BYTES], "big")


def _other(value: object) -> str:
    """Avro values without a JSON equivalent: bytes, decimals, times."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)


def _cut(
    kind: str,
    text: str,
    raw: bytes,
    chars_max: int,
    *,
    schema_id: int | None = None,
    note: str | None = None,
) -> Shown:
    return Shown(
        format=kind,
        text=text[:chars_max],
        size_bytes=len(raw),
        is_cut=len(text) > chars_max,
        schema_id=schema_id,
        note=note,
    )


def indented(text: str, *, chars_max: int | None = None) -> str:
    """Indent valid JSON, one field per line, without changing numbers and strings.

    Stops soon after `chars_max`, so that a large value costs no more than its preview.
    """
    pieces: list[str] = []
    length = 0
    for piece in _indented_pieces(found[0] for found in _TOKEN.finditer(text)):
        pieces.append(piece)
        length += len(piece)
        if chars_max is not None and length > chars_max:
            break
    return "".join(pieces)


def _indented_pieces(tokens: Iterator[str]) -> Iterator[str]:
    depth = 0
    before, token = "", next(tokens, "")
    while token:
        after = next(tokens, "")
        match token:
            case "{" | "[":
                depth += 1
                yield token if after in ("}", "]") else f"{token}\n{'  ' * depth}"
            case "}" | "]":
                depth -= 1
                yield token if before in ("{", "[") else f"\n{'  ' * depth}{token}"
            case ",":
                yield f",\n{'  ' * depth}"
            case ":":
                yield ": "
            case _:
                yield token
        before, token = token, after


def _hex(raw: bytes, chars_max: int, *, note: str | None = None) -> Shown:
    """Rows of offset, sixteen bytes and ASCII characters, up to `chars_max`."""
    enough = raw[: max(chars_max // _HEX_ROW_CHARS, 1) * _HEX_ROW_BYTES]
    rows = []
    for start in range(0, len(enough), _HEX_ROW_BYTES):
        row = enough[start : start + _HEX_ROW_BYTES]
        characters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        rows.append(f"{start:08x}  {row.hex(' '):<47}  {characters}")
    return Shown(
        format="hex",
        text="\n".join(rows),
        size_bytes=len(raw),
        is_cut=len(enough) < len(raw),
        note=note,
    )
