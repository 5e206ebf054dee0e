"""Files with changes between two positions, which tasks turn into records.

    000000000A1B2C30.0-000000000A1B3F18.0.changes    messages of pgoutput between positions
    000003-5f0c92de.rows                             a chunk of a snapshot, as an Arrow stream

The process that reads from PostgreSQL writes a file and reports its end as the position of the
batch. A file of changes that is lost is copied from the slot again. A chunk of a snapshot cannot be
read again as it was, so it is durable before its position is reported.

    changes  frames of: length int32, order int32, table order int32, message
"""

import os
import struct
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from headwater.connect.postgresql_cdc.cdc_position import CdcPosition

Frame = tuple[bytes, int, int]
"""A message, its order in the transaction, and that among the changes of its table."""

_FRAME: Final = struct.Struct(">III")
_BUFFER_BYTES: Final = 1 << 20
_CHANGES: Final = ".changes"
_ROWS: Final = ".rows"


class Spool:
    """The folder of one slot's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def changes_path(self, start: CdcPosition, end: CdcPosition) -> Path:
        places = f"{start.lsn:016X}.{start.index}-{end.lsn:016X}.{end.index}"
        return self.folder / f"{places}{_CHANGES}"

    def rows_path(self, chunk: str) -> Path:
        return self.folder / f"{chunk}{_ROWS}"

    def next_chunk(self, last: str | None) -> str:
        """The name of a chunk; the random part tells it from those of an earlier snapshot."""
        number = 0 if last is None else int(last.partition("-")[0])
        return f"{number + 1:06}-{uuid.uuid4().hex[:8]}"

    def write_changes(self) -> "ChangesWriter":
        self._make()
        return ChangesWriter(self.folder / f".{uuid.uuid4().hex}{_CHANGES}")

    def write_rows(self, chunk: str, schema: pa.Schema) -> "RowsWriter":
        self._make()
        return RowsWriter(self.rows_path(chunk), schema)

    def files(self) -> list[Path]:
        """All files of the spool, and what a killed process has left of one."""
        if not self.folder.exists():
            return []
        return [each for each in self.folder.iterdir() if each.suffix in (_CHANGES, _ROWS)]

    def remove(self, paths: Iterable[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def _make(self) -> None:
        # Rows of the database are for its owner only.
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)


class ChangesWriter:
    """Writes messages to a file, which gets its name when its end is known."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=_BUFFER_BYTES)

    def write(self, message: bytes, order: int = 0, table_order: int = 0) -> None:
        self._file.write(_FRAME.pack(len(message), order, table_order))
        self._file.write(message)

    def finish(self, path: Path) -> None:
        self._file.close()
        self._path.rename(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)


def read_changes(path: Path) -> Iterator[Frame]:
    """The frames of a file."""
    with path.open("rb", buffering=_BUFFER_BYTES) as file:
        while header := file.read(_FRAME.size):
            length, order, table_order = _FRAME.unpack(header)
            yield file.read(length), order, table_order


class RowsWriter:
    """Writes the rows of a chunk; they are durable when it is closed without an error."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._unfinished = path.with_name(f".{path.name}")
        self._file = self._unfinished.open("wb")
        self._writer: Any = pa.ipc.new_stream(self._file, schema)
        self.rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._writer.close()
        if error is None:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        if error is not None or not self.rows:
            self._unfinished.unlink()
            return
        self._unfinished.rename(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_rows(path: Path) -> Iterator[pa.RecordBatch]:
    with path.open("rb") as file, pa.ipc.open_stream(file) as reader:
        yield from reader
