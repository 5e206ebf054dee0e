"""Which records have a word in them, as people read them: pure, but for schemas that are looked up.

What a reader would get wrong: a word is looked for in bytes, because most records are not worth
decoding. Programs write JSON as `"Z\\u00fcrich"` as often as `"Zürich"`, so both are looked for.
Avro has no text to find a number or an enum in, so it is read with its schema first.
"""

import json
from dataclasses import dataclass, field
from typing import Final, Self

from headwater.console.views.record_decoder import PREFIX_BYTES, ReadRegistered, shown
from headwater.records.consumer_record import ConsumerRecord

PLACES: Final = ("anywhere", "key", "value", "headers")

_AVRO_CHARS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What somebody looks for; letters of either case are one. An empty one is everywhere."""

    text: str = ""
    place: str = "anywhere"
    read_key: ReadRegistered | None = None
    """What reads keys that have a schema; it may block."""
    read_value: ReadRegistered | None = None
    _needles: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def of(
        cls,
        text: str,
        *,
        place: str = "anywhere",
        read_key: ReadRegistered | None = None,
        read_value: ReadRegistered | None = None,
    ) -> Self:
        return cls(
            text=text.lower(),
            place=place,
            read_key=read_key,
            read_value=read_value,
            _needles=_needles(text),
        )

    def __bool__(self) -> bool:
        return bool(self.text)

    def holds(self, record: ConsumerRecord) -> bool:
        """Whether the word is in a record, where it is looked for."""
        if not self.text:
            return True
        anywhere = self.place == "anywhere"
        return (
            ((anywhere or self.place == "key") and self._within(record.key, self.read_key))
            or ((anywhere or self.place == "value") and self._within(record.value, self.read_value))
            or ((anywhere or self.place == "headers") and self._within_headers(record))
        )

    def _within_headers(self, record: ConsumerRecord) -> bool:
        return any(
            self._within(name.encode("utf-8", "surrogateescape")) or self._within(value)
            for name, value in record.headers
        )

    def _within(self, raw: bytes | None, read: ReadRegistered | None = None) -> bool:
        if not raw:
            return False
        lowered = raw.lower()
        if any(needle in lowered for needle in self._needles):
            return True
        if not self.text.isascii() and self.text in raw.decode("utf-8", "ignore").lower():
            # Bytes know of no capital letters but those of ASCII.
            return True
        if read is None or raw[0] != 0 or len(raw) < PREFIX_BYTES:
            return False
        found = shown(raw, "avro", chars_max=_AVRO_CHARS_MAX, read=read)
        return found.format == "avro" and self.text in found.text.lower()


def _needles(text: str) -> tuple[bytes, ...]:
    """The word as it is, and as JSON writes it, in bytes whose ASCII letters are small ones."""
    spellings = [text]
    for each in (text, text.lower(), text.upper()):
        spellings += [json.dumps(each, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
    return tuple(dict.fromkeys(each.encode().lower() for each in spellings))
