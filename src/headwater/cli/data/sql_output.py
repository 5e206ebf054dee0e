"""Write the result of a query: a table for people, CSV, JSON, Parquet or Arrow.

All but the table are written batch by batch, in bounded memory.
"""

import base64
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import typer

from headwater.cli.terminal import binary_output, is_terminal

if TYPE_CHECKING:
    import pyarrow as pa

PIPE_WIDTH: Final = 10_000
_CELL_MAX: Final = 2_000


class OutputFormat(StrEnum):
    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    ARROW = "arrow"


_SUFFIXES: Final = {
    ".csv": OutputFormat.CSV,
    ".json": OutputFormat.JSON,
    ".jsonl": OutputFormat.JSON,
    ".ndjson": OutputFormat.JSON,
    ".parquet": OutputFormat.PARQUET,
    ".arrow": OutputFormat.ARROW,
    ".arrows": OutputFormat.ARROW,
}


def format_of(chosen: OutputFormat | None, output: Path | None) -> OutputFormat:
    """The format that is named, or that of the file's name, or a table."""
    if chosen is None:
        if output is None:
            return OutputFormat.TABLE
        found = _SUFFIXES.get(output.suffix.lower())
        if found is None:
            raise typer.BadParameter(
                f"{output.name} does not name a format; use --format", param_hint="--output"
            )
        return found
    if chosen is OutputFormat.PARQUET and output is None and is_terminal(sys.stdout):
        raise typer.BadParameter("Parquet is binary; use --output FILE", param_hint="--format")
    return chosen


class Writer(ABC):
    """Writes batches; `write` returns whether it takes more."""

    @abstractmethod
    def write(self, batch: "pa.RecordBatch") -> bool: ...

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Complete the output."""


@contextmanager
def opened_writer(
    output_format: OutputFormat, output: Path | None, schema: "pa.Schema", *, rows_max: int
) -> Iterator[Writer]:
    """A writer to a file or to standard output."""
    if output is None:
        yield from _writing(output_format, binary_output(), schema, rows_max)
        return
    # A query that fails leaves an earlier file as it is.
    partial = output.with_name(f".{output.name}.partial")
    try:
        with partial.open("wb") as file:
            yield from _writing(output_format, file, schema, rows_max)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def _writing(
    output_format: OutputFormat, file: IO[bytes], schema: "pa.Schema", rows_max: int
) -> Iterator[Writer]:
    makers: dict[OutputFormat, Callable[[], Writer]] = {
        OutputFormat.TABLE: lambda: _TableWriter(file, schema, rows_max),
        OutputFormat.CSV: lambda: _CsvWriter(file, schema),
        OutputFormat.JSON: lambda: _JsonWriter(file),
        OutputFormat.PARQUET: lambda: _ParquetWriter(file, schema),
        OutputFormat.ARROW: lambda: _ArrowWriter(file, schema),
    }
    writer = makers[output_format]()
    yield writer
    writer.close()
    file.flush()


class _TableWriter(Writer):
    """A table of the first rows; its columns are as wide as they have to be."""

    def __init__(self, file: IO[bytes], schema: "pa.Schema", rows_max: int) -> None:
        self._file = file
        self._schema = schema
        self._rows_max = rows_max
        self._rows: list[tuple[object, ...]] = []
        self._is_cut = False

    def write(self, batch: "pa.RecordBatch") -> bool:
        from headwater.sql.query_result import python_values

        free = self._rows_max - len(self._rows) if self._rows_max else batch.num_rows
        columns = [python_values(column) for column in batch.slice(0, free).columns]
        self._rows += zip(*columns, strict=True)
        self._is_cut = batch.num_rows > free
        return not self._is_cut

    def close(self) -> None:
        self._file.write(table_text(self._schema, self._rows).encode())
        if self._is_cut:
            self._file.flush()
            typer.echo(
                f"The first {self._rows_max:,} rows; for all of them use --rows 0, or --output.",
                err=True,
            )


def table_text(schema: "pa.Schema", rows: list[tuple[object, ...]]) -> str:
    """A table without truncation; vertical if it is wider than the terminal."""
    import pyarrow as pa
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    def is_number(kind: "pa.DataType") -> bool:
        return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)

    table = Table(box=None, pad_edge=False, header_style="bold")
    for each in schema:
        justify: Any = "right" if is_number(each.type) else "left"
        table.add_column(Text(printable(each.name)), justify=justify, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(shown(value)) for value in row))
    console = Console(width=PIPE_WIDTH, highlight=False, color_system=None)
    with console.capture() as captured:
        if is_terminal(sys.stdout) and console.measure(table).maximum > Console().width and rows:
            for number, row in enumerate(rows):
                vertical = Table(box=None, pad_edge=False, show_header=False)
                for each, value in zip(schema, row, strict=True):
                    vertical.add_row(Text(printable(each.name)), Text(shown(value)))
                if number:
                    console.print()
                console.print(vertical)
        else:
            console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def shown(value: object) -> str:
    """A value in a table. Control characters of records do not reach the terminal."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            text = value
        case datetime():
            text = value.isoformat(sep=" ")
        case bytes():
            text = str(as_json(value)) if _is_text(value) else "\\x" + value.hex()
        case list() | dict():
            text = json.dumps(as_json(value), ensure_ascii=False)
        case _:
            text = str(value)
    cut = text if len(text) <= _CELL_MAX else text[:_CELL_MAX] + "..."
    return printable(cut)


def printable(text: str) -> str:
    """Text with escapes for what is not printable."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def as_json(value: object) -> Any:
    """A value as JSON has it; bytes that are not UTF-8 as {"base64": ...}."""
    match value:
        case bytes():
            if _is_text(value):
                return value.decode()
            return {"base64": base64.b64encode(value).decode()}
        case dict():
            return {str(name): as_json(each) for name, each in value.items()}
        case list() | tuple():
            return [as_json(each) for each in value]
        case datetime() | date():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


class _JsonWriter(Writer):
    """An object per row and line."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, batch: "pa.RecordBatch") -> bool:
        from headwater.sql.query_result import python_values

        names = batch.schema.names
        columns = [python_values(column) for column in batch.columns]
        for row in zip(*columns, strict=True):
            line = dict(zip(names, map(as_json, row), strict=True))
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        return True


class _CsvWriter(Writer):
    """A header and a line per row; lists and structs are JSON."""

    def __init__(self, file: IO[bytes], schema: "pa.Schema") -> None:
        import pyarrow as pa
        from pyarrow import csv

        self._file = file
        self._nested = {each.name for each in schema if pa.types.is_nested(each.type)}
        self._schema = pa.schema(
            [
                pa.field(each.name, pa.string() if each.name in self._nested else each.type)
                for each in schema
            ]
        )
        self._writer = csv.CSVWriter(file, self._schema)

    def write(self, batch: "pa.RecordBatch") -> bool:
        import pyarrow as pa

        array: Any = pa.array
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in self._nested:
                texts = [
                    None if each is None else json.dumps(as_json(each), ensure_ascii=False)
                    for each in column.to_pylist()
                ]
                columns.append(array(texts, pa.string()))
            else:
                columns.append(column)
        self._writer.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        self._file.flush()
        return True

    def close(self) -> None:
        self._writer.close()


class _ParquetWriter(Writer):
    def __init__(self, file: IO[bytes], schema: "pa.Schema") -> None:
        from pyarrow import parquet

        self._writer = parquet.ParquetWriter(file, schema, compression="zstd")

    def write(self, batch: "pa.RecordBatch") -> bool:
        self._writer.write_batch(batch)
        return True

    def close(self) -> None:
        self._writer.close()


class _ArrowWriter(Writer):
    """Arrow's streaming format."""

    def __init__(self, file: IO[bytes], schema: "pa.Schema") -> None:
        import pyarrow as pa

        sink: Any = file
        self._writer = pa.ipc.new_stream(sink, schema)

    def write(self, batch: "pa.RecordBatch") -> bool:
        self._writer.write_batch(batch)
        return True

    def close(self) -> None:
        self._writer.close()
