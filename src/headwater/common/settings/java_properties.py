"""Read and write Java's `.properties` format.

A key ends at the first unescaped `=`, `:` or blank; a line continues in the next one if it ends in
an odd number of backslashes; `#` and `!` start a comment only at the start of a line. Files are
Latin-1, with `\\uXXXX` for everything else.
"""

import re
from collections.abc import Iterator, Mapping

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_KEY = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


def parse_properties(content: bytes) -> dict[str, str]:
    """Parse keys and values; the last of equal keys wins.

    Raises `ValueError` for a bad escape.
    """
    return dict(map(_split, _logical_lines(content.decode("latin-1"))))


def format_properties(values: Mapping[str, str]) -> bytes:
    """Format one line per key, in the given order."""
    lines = (f"{_escape(key, ' ')}={_escape_value(value)}\n" for key, value in values.items())
    return "".join(lines).encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    continues = False
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not continues and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continues = backslashes % 2 == 1
        if continues:
            pending += line[:-1]
        else:
            yield pending + line
            pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    match = _KEY.match(line)
    assert match is not None, "the pattern matches the empty text too"
    return _unescape(match[1]), _unescape(line[match.end() :])


def _unescape(text: str) -> str:
    plain = _ESCAPE.sub(_meaning, text)
    # Java writes a character beyond the first 65,536 as two escapes, a surrogate pair.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _meaning(match: re.Match[str]) -> str:
    escaped = match[1]
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    if escaped == "u":
        raise ValueError("four hexadecimal digits must follow \\u")
    return _NAMED.get(escaped, escaped)


def _escape_value(value: str) -> str:
    body = value.lstrip(" ")
    return "\\ " * (len(value) - len(body)) + _escape(body, "")


def _escape(text: str, also: str) -> str:
    return "".join(_escape_unit(unit, also) for unit in _utf16_units(text))


def _escape_unit(unit: int, also: str) -> str:
    character = chr(unit)
    if character in _WRITTEN:
        return _WRITTEN[character]
    if character in "\\=:#!" or character in also:
        return "\\" + character
    return character if 0x20 <= unit <= 0x7E else f"\\u{unit:04X}"


def _utf16_units(text: str) -> Iterator[int]:
    encoded = text.encode("utf-16-le")
    for position in range(0, len(encoded), 2):
        yield int.from_bytes(encoded[position : position + 2], "little")
