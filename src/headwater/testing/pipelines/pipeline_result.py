"""What the sinks and the dead-letter topic of a pipeline under test got."""

import difflib
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from headwater.common.exceptions import HeadwaterError
from headwater.records.consumer_record import ConsumerRecord
from headwater.testing.pipelines.sink_rows import SinkRow, SinkRows

Deserializer = Callable[[bytes | None], Any]

_ERRORS = "__headwater.errors."


class UnknownSink(HeadwaterError, KeyError):
    """The pipeline has no sink of this name."""

    def __str__(self) -> str:
        # A KeyError would show the quoted representation.
        return str(self.args[0])


class PipelineResult:
    """The rows of each sink since the test began: `result["sink"]`.

    A sink is found by its name, its topic, or the last part of its path.
    """

    def __init__(
        self,
        rows: Mapping[str, SinkRows],
        aliases: Mapping[str, str],
        dead_letters: SinkRows,
        *,
        watermark: datetime | None,
        late_rows: int,
        batches: Mapping[str, int],
    ) -> None:
        self._rows = rows
        self._aliases = aliases
        self.dead_letters = dead_letters
        """Records that do not match their schema: columns source, key, value and reason."""
        self.watermark = watermark
        """The lowest watermark of all queries; None if no source has one."""
        self.late_rows = late_rows
        """Rows that were dropped because they came after the watermark."""
        self.batches = dict(batches)
        """The number of micro-batches of each sink, the ones without rows included."""

    def __getitem__(self, name: str) -> SinkRows:
        found = self._rows.get(self._aliases.get(name, name))
        if found is None:
            known = ", ".join(sorted(self._rows))
            near = difflib.get_close_matches(name, [*self._rows, *self._aliases], 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UnknownSink(f"the pipeline has no sink {name}{hint} It has {known}")
        return found

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {len(rows)}" for name, rows in self._rows.items())
        return f"<PipelineResult {counts}, dead letters: {len(self.dead_letters)}>"


def topic_row(record: ConsumerRecord, deserialize: Mapping[str, Deserializer]) -> SinkRow:
    """Return a record as a row: its value's fields, or a column `value`."""
    values: Mapping[str, Any]
    if record.value is None:
        values = {}
    else:
        read = deserialize["value"](record.value) if "value" in deserialize else _json(record.value)
        values = read if isinstance(read, dict) else {"value": read}
    return SinkRow(
        values,
        key=deserialize["key"](record.key) if "key" in deserialize else text_of(record.key),
        headers=_headers(record),
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
        is_tombstone=record.value is None,
    )


def dead_letter_row(record: ConsumerRecord) -> SinkRow:
    headers = _headers(record)
    values = {
        "source": headers.get(f"{_ERRORS}source"),
        "key": text_of(record.key),
        "value": text_of(record.value),
        "reason": headers.get(f"{_ERRORS}message"),
    }
    return SinkRow(
        values,
        key=values["key"],
        headers=headers,
        timestamp=record.timestamp,
        partition=record.partition,
        offset=record.offset,
    )


def text_of(value: bytes | None) -> str | bytes | None:
    """As text if it is UTF-8."""
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


def _json(value: bytes) -> Any:
    text = text_of(value)
    try:
        return json.loads(value)
    except ValueError:
        return text


def _headers(record: ConsumerRecord) -> dict[str, str | bytes]:
    found = {}
    for name, value in record.headers:
        text = text_of(value)
        if text is not None:
            found[name] = text
    return found
