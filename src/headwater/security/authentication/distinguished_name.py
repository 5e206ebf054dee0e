"""A certificate's subject as an RFC 2253 name in Java's spelling, as in Kafka.

    CN=alice,OU=Tea\\, green,O=Shop,C=DE

RFC 2253 lists the most specific attribute first.

Note: only nine attribute types have keywords. Java writes any other, such as an e-mail address, as
its object identifier and the hexadecimal DER bytes of its value; ACLs written for Kafka expect
that.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from headwater.common.exceptions import ProtocolError

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}

# String types: UTF8, Printable, T61, IA5, General, Universal and BMP. Java decodes the bytes of
# each as UTF-8, even where they are UTF-16.
_STRING_TAGS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E)

_VERSION: Final = 0xA0
_ESCAPED: Final = ',=+<>#;"\\'


class _Value(NamedTuple):
    """One DER value: its tag, its content, and its whole encoding."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate; `ProtocolError` if it is malformed."""
    signed = _first(_first(certificate))
    fields = [each for each in _values(signed) if each.tag != _VERSION]
    # In this order: serial identifier, signature, issuer, validity, subject.
    if len(fields) < 5:
        raise ProtocolError("the certificate has no subject")
    parts = [_relative_name(each) for each in _values(fields[4].content)]
    return ",".join(reversed(parts))


def _first(content: bytes) -> bytes:
    """Content of the first value."""
    for each in _values(content):
        return each.content
    raise ProtocolError("the certificate is empty")


def _relative_name(names: _Value) -> str:
    """One relative distinguished name, which may have several attributes."""
    return "+".join(_attribute(each) for each in _values(names.content))


def _attribute(pair: _Value) -> str:
    attribute_type, value, *_ = (*_values(pair.content), None, None)
    if attribute_type is None or value is None:
        raise ProtocolError("an attribute of the certificate's subject has no value")
    identifier = _object_identifier(attribute_type.content)
    keyword = _KEYWORDS.get(identifier)
    if keyword is None or value.tag not in _STRING_TAGS:
        return f"{keyword or identifier}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    body = text.lstrip(" \r")
    ahead = text[: len(text) - len(body)]
    kept = body.rstrip(" \r")
    behind = body[len(kept) :]
    inside = "".join(_escaped_character(each) for each in kept)
    return _each_escaped(ahead) + inside + _each_escaped(behind)


def _escaped_character(character: str) -> str:
    if character == "\0":
        return "\\00"
    return f"\\{character}" if character in _ESCAPED else character


def _each_escaped(blanks: str) -> str:
    return "".join(f"\\{blank}" for blank in blanks)


def _object_identifier(content: bytes) -> str:
    """Decode an object identifier: seven bits per byte, first two arcs combined."""
    arcs: list[int] = []
    arc = 0
    for byte in content:
        arc = arc << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(arc)
            arc = 0
    if not arcs:
        raise ProtocolError("an attribute of the certificate's subject has no type")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _values(content: bytes) -> Iterator[_Value]:
    """Consecutive DER values."""
    position = 0
    while position < len(content):
        try:
            tag, length = content[position], content[position + 1]
            start = position + 2
            if length & 0x80:
                size = length & 0x7F
                length = int.from_bytes(content[start : start + size], "big")
                start += size
        except IndexError:
            raise ProtocolError("the certificate is truncated") from None
        end = start + length
        if end > len(content):
            raise ProtocolError("the certificate is truncated")
        yield _Value(tag, content[start:end], content[position:end])
        position = end
