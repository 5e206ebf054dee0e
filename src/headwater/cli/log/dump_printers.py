"""Print a log dump as text or as JSON lines.

Both printers stream: a line is written before the next batch is read.

Note: keys and values are untrusted bytes that may contain terminal escape sequences. Only
printable text is shown as text, everything else in hexadecimal.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

import typer

from headwater.common.ids import NO_TIMESTAMP
from headwater.records.batch_header import CODEC_MASK, BatchHeader, Codec
from headwater.records.control_batches import parse_control
from headwater.records.record import Record
from headwater.storage.log.log_check import CheckedBatch, ZeroTail

WIDE_COLUMNS = 150
SHOWN_BYTES = 64

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Totals:
    """Counters of one file."""

    file: str
    indexes: tuple[str, ...] = ()
    batch_count: int = 0
    record_count: int = 0
    entry_count: int = 0
    size_bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    finding_count: int = 0
    is_partial: bool = False

    def count(self, item: CheckedBatch | ZeroTail) -> None:
        if isinstance(item, CheckedBatch):
            self.batch_count += 1
            self.record_count += item.header.record_count
            self.size_bytes += item.header.size_bytes
            if self.first_offset is None:
                self.first_offset = item.header.base_offset
            self.last_offset = item.header.last_offset


class Printer(Protocol):
    """The output of a dump."""

    def batch(self, batch: CheckedBatch, records: Iterable[Record] | None) -> None: ...

    def entry(self, entry: dict[str, int]) -> None: ...

    def message(self, text: str) -> None: ...

    def summary(self, totals: Totals) -> None: ...


class TablePrinter:
    """One long line for each batch, or two short ones on a narrow terminal."""

    def __init__(self) -> None:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE_COLUMNS
        self._between = "  " if width >= WIDE_COLUMNS else "\n    "
        self._has_title = False

    def batch(self, batch: CheckedBatch, records: Iterable[Record] | None) -> None:
        self._title(
            f"{'base offset':>12} {'last offset':>12} {'records':>7} {'position':>11} "
            f"{'bytes':>10} {'codec':<6} {'leader':>6} crc"
        )
        header = batch.header
        line = (
            f"{header.base_offset:>12} {header.last_offset:>12} {header.record_count:>7} "
            f"{batch.position:>11} {header.size_bytes:>10} {codec_name(header):<6} "
            f"{header.leader_epoch:>6} {'ok ' if batch.crc_matches else 'BAD'}"
        )
        line = line if batch.crc_matches else typer.style(line, fg=typer.colors.RED)
        typer.echo(line + self._between + typer.style("  ".join(_remarks(header)), dim=True))
        for record in records or ():
            typer.echo(f"      {_record_line(record, header)}")

    def entry(self, entry: dict[str, int]) -> None:
        widths = {name: max(13, len(name)) for name in entry}
        self._title("  ".join(f"{name.replace('_', ' '):>{widths[name]}}" for name in entry))
        typer.echo("  ".join(f"{number:>{widths[name]}}" for name, number in entry.items()))

    def message(self, text: str) -> None:
        typer.secho(text, dim=True)

    def summary(self, totals: Totals) -> None:
        typer.secho(f"{totals.file}: {_in_words(totals)}", bold=True)

    def _title(self, text: str) -> None:
        if not self._has_title:
            typer.secho(text, dim=True)
            self._has_title = True


class JsonPrinter:
    """One object per line; timestamps in ms, bytes as text or as {"hex": ...}."""

    def batch(self, batch: CheckedBatch, records: Iterable[Record] | None) -> None:
        header = batch.header
        shown: dict[str, object] = {
            "position": batch.position,
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "record_count": header.record_count,
            "size_bytes": header.size_bytes,
            "codec": codec_name(header),
            "leader_epoch": header.leader_epoch,
            "timestamp_type": header.timestamp_type.name,
            "base_timestamp": header.base_timestamp,
            "max_timestamp": header.max_timestamp,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "is_transactional": header.is_transactional,
            "is_control": header.is_control,
            "delete_horizon_ms": header.delete_horizon_ms,
            "crc_ok": batch.crc_matches,
        }
        if records is not None:
            shown["records"] = [_record_object(record, header) for record in records]
        typer.echo(json.dumps(shown))

    def entry(self, entry: dict[str, int]) -> None:
        typer.echo(json.dumps(entry))

    def message(self, text: str) -> None:
        """Ignored: the summary has the numbers."""

    def summary(self, totals: Totals) -> None:
        summary = {
            "file": totals.file,
            "batches": totals.batch_count,
            "records": totals.record_count,
            "entries": totals.entry_count,
            "size_bytes": totals.size_bytes,
            "first_offset": totals.first_offset,
            "last_offset": totals.last_offset,
            "checked_indexes": totals.indexes,
            "is_partial": totals.is_partial,
            "findings": totals.finding_count,
        }
        typer.echo(json.dumps({"summary": summary}))


def codec_name(header: BatchHeader) -> str:
    """The name of the codec, or ?number for an unknown one."""
    number = header.attributes & CODEC_MASK
    return Codec(number).name.lower() if number <= Codec.ZSTD else f"?{number}"


def time_text(timestamp_ms: int) -> str:
    """UTC with milliseconds; a timestamp outside the calendar as a number."""
    if timestamp_ms == NO_TIMESTAMP:
        return "no timestamp"
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return f"{timestamp_ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03}"


def bytes_text(content: bytes | None) -> str:
    """Printable text in quotes, else hexadecimal; long contents are shortened."""
    if content is None:
        return "null"
    text = printable(content)
    if text is None:
        cut = content[: SHOWN_BYTES // 2]
        return f"0x{cut.hex()}" + _rest(len(content) - len(cut))
    return f'"{text[:SHOWN_BYTES]}"' + _rest(len(text) - SHOWN_BYTES, "characters")


def printable(content: bytes) -> str | None:
    """The text of these bytes, if it is UTF-8 without control characters."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if text.isprintable() else None


def _rest(count: int, unit: str = "bytes") -> str:
    return f" and {count:,} {unit}" if count > 0 else ""


def _remarks(header: BatchHeader) -> Iterator[str]:
    if header.delete_horizon_ms is None:
        yield time_text(header.base_timestamp)
        if header.max_timestamp > header.base_timestamp >= 0:
            yield f"+{header.max_timestamp - header.base_timestamp} ms"
    else:
        yield time_text(header.max_timestamp)
        yield f"delete horizon {time_text(header.delete_horizon_ms)}"
    if header.timestamp_type:
        yield "append time"
    if header.has_producer:
        yield f"producer {header.producer_id} epoch {header.producer_epoch}"
    if header.base_sequence >= 0:
        yield f"sequence {header.base_sequence}"
    if header.is_transactional:
        yield "transactional"
    if header.is_control:
        yield "control"


def _record_line(record: Record, header: BatchHeader) -> str:
    start = f"{record.offset}  {time_text(record.timestamp)}"
    if header.is_control:
        return f"{start}  {_control_text(record)}"
    line = f"{start}  {bytes_text(record.key)}: {bytes_text(record.value)}"
    if record.headers:
        pairs = ", ".join(f"{_name(key)}={bytes_text(value)}" for key, value in record.headers)
        line += f"  [{pairs}]"
    return line


def _control_text(record: Record) -> str:
    control = parse_control(record.key, record.value)
    name = getattr(control.type, "name", f"control record {control.type}")
    if control.coordinator_epoch is None:
        return name
    return f"{name}, coordinator epoch {control.coordinator_epoch}"


def _name(key: str) -> str:
    return key if key.isprintable() else ascii(key)


def _record_object(record: Record, header: BatchHeader) -> dict[str, object]:
    shown: dict[str, object] = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _bytes_object(record.key),
        "value": _bytes_object(record.value),
        "headers": [[key, _bytes_object(value)] for key, value in record.headers],
    }
    if header.is_control:
        control = parse_control(record.key, record.value)
        shown["control"] = getattr(control.type, "name", control.type)
        shown["coordinator_epoch"] = control.coordinator_epoch
    return shown


def _bytes_object(content: bytes | None) -> object:
    if content is None:
        return None
    text = printable(content)
    return {"hex": content.hex()} if text is None else text


def _in_words(totals: Totals) -> str:
    parts = []
    if totals.entry_count:
        parts.append(_counted(totals.entry_count, "entry", "entries"))
    elif totals.batch_count:
        parts += [
            _counted(totals.batch_count, "batch", "batches"),
            _counted(totals.record_count, "record", "records"),
            f"offsets {totals.first_offset} to {totals.last_offset}",
            _counted(totals.size_bytes, "byte", "bytes"),
        ]
    else:
        parts.append("no intact batch or entry" if totals.finding_count else "empty")
    if totals.indexes:
        parts.append(f"with {' and '.join(totals.indexes)}")
    if totals.is_partial:
        parts.append("the rest was not read")
    found = _counted(totals.finding_count, "finding", "findings")
    return f"{', '.join(parts)}; {found if totals.finding_count else 'no damage found'}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"
