"""The subject of a certificate as Java spells it, which is what Kafka calls a principal.

    CN=alice,OU=Tea\\, green,O=Shop,C=DE

That is RFC 2253: the last part first. What a reader would get wrong: only nine kinds of parts have
names. Java writes any other, an e-mail address for one, as its number and the hexadecimal bytes of
its value, and access rights that were written for Kafka say it that way.
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

# The kinds of texts: UTF8, Printable, T61, IA5, General, Universal and BMP. Java takes the bytes of
# each for UTF-8, even where they are UTF-16.
_TEXTS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E)

_VERSION: Final = 0xA0
_ESCAPED: Final = ',=+<>#;"\\'


class _Value(NamedTuple):
    """One value of DER: what it is, what is in it, and all of it."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """The subject's name, of a certificate as DER. `ProtocolError` if it is none."""
    signed = _first(_first(certificate))
    fields = [each for each in _values(signed) if each.tag != _VERSION]
    # Serial number, signature, issuer, validity, subject.
    if len(fields) < 5:
        raise ProtocolError("a certificate without a subject")
    parts = [_part(each) for each in _values(fields[4].content)]
    return ",".join(reversed(parts))


def _first(content: bytes) -> bytes:
    """What is in the first value."""
    for each in _values(content):
        return each.content
    raise ProtocolError("no certificate")


def _part(names: _Value) -> str:
    """Several names may share one part."""
    return "+".join(_name(each) for each in _values(names.content))


def _name(pair: _Value) -> str:
    kind, value, *_ = (*_values(pair.content), None, None)
    if kind is None or value is None:
        raise ProtocolError("a name in a certificate without a value")
    number = _number(kind.content)
    keyword = _KEYWORDS.get(number)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or number}=#{value.whole.hex()}"
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


def _number(content: bytes) -> str:
    """An object identifier as people write it: seven bits in each byte, the first two together."""
    arcs: list[int] = []
    arc = 0
    for byte in content:
        arc = arc << 7 | byte & 0x7F
        if byte < 0x80:
            arcs.append(arc)
            arc = 0
    if not arcs:
        raise ProtocolError("a name in a certificate without a kind")
    first = min(arcs[0] // 40, 2)
    return ".".join(map(str, (first, arcs[0] - 40 * first, *arcs[1:])))


def _values(content: bytes) -> Iterator[_Value]:
    """The values that stand one after the other."""
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
            raise ProtocolError("a certificate that ends too soon") from None
        end = start + length
        if end > len(content):
            raise ProtocolError("a certificate that ends too soon")
        yield _Value(tag, content[start:end], content[position:end])
        position = end
