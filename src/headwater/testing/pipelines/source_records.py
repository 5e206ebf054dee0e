"""Turn rows into records, the inverse of a source's `decode`."""

import csv
import difflib
import io
import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headwater.common.exceptions import HeadwaterError
from headwater.pipelines.spec.pipeline_spec import Coding, Decoding, SourceSpec

Serializer = Callable[[Any], bytes | None]


class InvalidRow(HeadwaterError):
    """A row that does not fit the source it is for."""


class RowEncoder:
    """Encodes rows as records of a source."""

    def __init__(self, source: SourceSpec, avro: Mapping[str, Serializer]) -> None:
        """`avro` serializes those of `key` and `value` that are Avro."""
        self._source = source
        self._avro = avro

    def encode(
        self, row: Mapping[str, Any], key_column: str | None
    ) -> tuple[bytes | None, bytes | None]:
        """Return the key and value of a record; `key_column` may be its key."""
        source = self._source
        if source.key is None and source.value is None:
            raise InvalidRow(
                f"the source {source.name} has no decode, so its rows are records: "
                "feed texts, bytes or ProducerRecord"
            )
        columns = {
            part: self._columns(part, decoding)
            for part, decoding in (("key", source.key), ("value", source.value))
            if decoding is not None
        }
        self._refuse_unknown(row, columns)
        key = self._part("key", source.key, row, columns.get("key"))
        value = self._part("value", source.value, row, columns.get("value"))
        if key_column is not None and source.key is None:
            key = _text(row.get(key_column))
        return key, value

    def _columns(self, part: str, decoding: Decoding) -> list[str] | None:
        """None if the registry knows them and this encoder does not."""
        if decoding.coding is Coding.AVRO:
            return None
        assert decoding.fields, f"the {part} of {self._source.name} has columns"
        return [each.name for each in decoding.fields]

    def _refuse_unknown(
        self, row: Mapping[str, Any], columns: Mapping[str, list[str] | None]
    ) -> None:
        if None in columns.values():
            return
        known = [name for names in columns.values() for name in names or ()]
        for name in row:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
                raise InvalidRow(f"the source {self._source.name} has no column {name}; {hint}")

    def _part(
        self,
        part: str,
        decoding: Decoding | None,
        row: Mapping[str, Any],
        columns: list[str] | None,
    ) -> bytes | None:
        if decoding is None:
            return None
        if decoding.coding is Coding.AVRO:
            other = self._source.key if part == "value" else self._source.value
            taken = {each.name for each in other.fields} if other is not None else set()
            return self._avro[part]({name: row[name] for name in row if name not in taken})
        assert columns is not None
        match decoding.coding:
            case Coding.STRING:
                return _text(row.get(columns[0]))
            case Coding.CSV:
                return _csv([row.get(name) for name in columns])
            case _:
                given = {name: row[name] for name in columns if name in row}
                return json.dumps(given, default=_json, ensure_ascii=False).encode()


def _text(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return str(_json(value) if isinstance(value, (date, datetime)) else value).encode()


def _csv(cells: list[Any]) -> bytes:
    written = io.StringIO()
    texts = [_json(each) if isinstance(each, (date, datetime)) else each for each in cells]
    csv.writer(written, lineterminator="").writerow(texts)
    return written.getvalue().encode()


def json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, default=_json, ensure_ascii=False)


def _json(value: Any) -> Any:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)
        case bytes():
            return value.decode()
        case _:
            raise InvalidRow(f"{value!r} cannot be written as JSON")
