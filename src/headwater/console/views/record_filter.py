"""Match records that contain a text. Pure, except for schemas that are looked up.

Note: the text is searched in the raw bytes, since decoding every record would be too slow. JSON may
contain `"Z\\u00fcrich"` or `"Zürich"`, so both forms are searched. Avro and Protobuf have no
text form of numbers and enums, so their values are deserialized first.
"""

import json
from dataclasses import dataclass, field
from typing import Final, Self

from headwater.console.views.record_decoder import (
    PREFIX_BYTES,
    REGISTERED_FORMATS,
    ReadRegistered,
    shown,
)
from headwater.records.consumer_record import ConsumerRecord

PLACES: Final = ("anywhere", "key", "value", "headers")

_AVRO_CHARS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """The text to search, case-insensitive. An empty one matches every record."""

    text: str = ""
    place: str = "anywhere"
    read_key: ReadRegistered | None = None
    """Deserializer for keys with a schema; it may block."""
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
        """Whether the record contains the text in the chosen part."""
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
            # `bytes.lower` only converts ASCII letters.
            return True
        if read is None or raw[0] != 0 or len(raw) < PREFIX_BYTES:
            return False
        found = shown(raw, "avro", chars_max=_AVRO_CHARS_MAX, read=read)
        return found.format in REGISTERED_FORMATS and self.text in found.text.lower()


def _needles(text: str) -> tuple[bytes, ...]:
    """The text as it is and as in JSON, as bytes with ASCII letters in lower case."""
    spellings = [text]
    for each in (text, text.lower(), text.upper()):
        spellings += [json.dumps(each, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)]
    return tuple(dict.fromkeys(each.encode().lower() for each in spellings))
