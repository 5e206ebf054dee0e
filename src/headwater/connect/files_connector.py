"""Files in a directory: Parquet, CSV, or JSON with one object per line.

Each file is read once, in the order in which the files appeared.

Note: a file must be complete when it appears. Write it under a name that starts with a dot or an
underscore, which is ignored, and rename it; the sink does the same. Files are ordered by the time
of the rename (ctime), so a file that took long to write does not count as old.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from headwater.connect.connector import Part, Position, Sink, Source, Split
from headwater.connect.seen_files import FolderFile, SeenFiles
from headwater.spark.exceptions import InvalidOption, UnreadableFile

_FORMATS: Final = ("parquet", "csv", "json")
_KINDS: Final[dict[str, Callable[[], ds.FileFormat]]] = {
    "parquet": ds.ParquetFileFormat,
    "csv": ds.CsvFileFormat,
    "json": ds.JsonFileFormat,
}
_FILES_AT_ONCE: Final = 1_000


class FilesSource(Source):
    """Rows of the present and future files of a directory."""

    option_names: ClassVar[tuple[str, ...]] = ("path", "format", "maxFilesPerTrigger")

    def schema(self) -> pa.Schema:
        """Columns of the first file with rows: all files must have the same."""
        found = [
            file.name for file in self._files() if file.size_bytes or self._kind() == "parquet"
        ]
        if not found:
            raise InvalidOption(
                f"no file with rows in {self._folder()}, so the columns are unknown"
            )
        return self._opened(found[0], None).schema

    def latest(self, start: Position) -> Position:
        limit = self.options.number("maxFilesPerTrigger", _FILES_AT_ONCE)
        seen = SeenFiles.of(start)
        files = self._files()
        new = [file for file in files if not seen.has(file)][:limit]
        return seen.with_more(new, files).position() if new else start

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        before, after = SeenFiles.of(start), SeenFiles.of(end)
        return [
            {"name": file.name}
            for file in self._files()
            if after.has(file) and not before.has(file)
        ]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        path = self._folder() / split["name"]
        if self._kind() != "parquet" and not path.stat().st_size:
            return
        opened = self._opened(split["name"], self.schema())
        with _readable(path, self._kind()):
            for batch in opened.to_batches():
                if batch.num_rows:
                    yield batch

    def _files(self) -> list[FolderFile]:
        """Files in the order in which they appeared."""
        try:
            entries = list(os.scandir(self._folder()))
        except OSError as error:
            raise InvalidOption(f"cannot read {self._folder()}: {error.strerror}") from error
        found = [_file(each) for each in entries if not each.name.startswith((".", "_"))]
        return sorted(filter(None, found), key=lambda file: file.stamp)

    def _opened(self, name: str, schema: pa.Schema | None) -> ds.Dataset:
        path = self._folder() / name
        with _readable(path, self._kind()):
            return ds.dataset(str(path), schema=schema, format=_KINDS[self._kind()]())

    def _kind(self) -> str:
        return self.options.choice("format", _FORMATS)

    def _folder(self) -> Path:
        return Path(self.options.required("path"))


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except pa.ArrowInvalid as error:
        # Arrow's message starts with what it was doing; the reason follows.
        message = str(error).splitlines()[0]
        reason = message.partition(f"source '{path}': ")[2].removeprefix("Invalid: ") or message
        raise UnreadableFile(f"{path} is not a {kind} file: {reason}") from error


def _file(entry: os.DirEntry[str]) -> FolderFile | None:
    """None if it is not a file or was just removed."""
    try:
        if not entry.is_file():
            return None
        stat = entry.stat()
    except FileNotFoundError:
        return None
    return FolderFile(
        name=entry.name,
        size_bytes=stat.st_size,
        written_ns=stat.st_mtime_ns,
        changed_ns=stat.st_ctime_ns,
    )


class FilesSink(Sink):
    """Write one file per part of a batch; a retry replaces the file of its part."""

    option_names: ClassVar[tuple[str, ...]] = ("path", "format")

    def prepare(self, schema: pa.Schema) -> None:
        del schema
        self.options.choice("format", _FORMATS)
        Path(self.options.required("path")).mkdir(parents=True, exist_ok=True)

    def write(self, part: Part, batches: Iterator[pa.RecordBatch]) -> int:
        kind = self.options.choice("format", _FORMATS)
        folder = Path(self.options.required("path"))
        name = f"part-{part.query_id}-{part.batch_id:08}-{part.partition:05}.{kind}"
        table = pa.Table.from_batches(found) if (found := list(batches)) else None
        if table is None or not table.num_rows:
            return 0
        unfinished = folder / f".{name}"
        _write(table, unfinished, kind)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        unfinished.rename(folder / name)
        return table.num_rows


def _write(table: pa.Table, path: Path, kind: str) -> None:
    match kind:
        case "parquet":
            pq.write_table(table, path)
        case "csv":
            pyarrow.csv.write_csv(table, path)
        case _:
            with path.open("w", encoding="utf-8") as lines:
                for batch in table.to_batches(max_chunksize=10_000):
                    lines.writelines(_json_lines(batch))


def _json_lines(batch: pa.RecordBatch) -> Iterator[str]:
    for row in batch.to_pylist():
        yield json.dumps(row, default=_json_default, separators=(",", ":")) + "\n"


def _json_default(value: object) -> str:
    """Values without a JSON form as strings: times in ISO 8601, bytes in hexadecimal."""
    if isinstance(value, bytes):
        return value.hex()
    isoformat = getattr(value, "isoformat", None)
    return str(value) if isoformat is None else str(isoformat())
