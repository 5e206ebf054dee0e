"""Read, check and print the files of a log for `headwater log dump`.

What counts as damage is decided in `storage.log.segment_check` and in the decoder of each file.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import typer

from headwater.cli.log.dump_printers import JsonPrinter, Printer, TablePrinter, Totals
from headwater.cli.log.index_files import ENTRY_FILES
from headwater.common.exceptions import BatchError, CorruptFile, HeadwaterError
from headwater.records.record import Record
from headwater.storage.log.log_check import CheckedBatch, Finding, ZeroTail
from headwater.storage.log.segment_check import SegmentFiles, check_segment, open_batch

# Suffixes of files that are being cleaned, swapped in or deleted.
_PASSING = re.compile(r"(\.cleaned|\.swap|\.deleted)$")
_BASE_OFFSET = re.compile(r"[0-9]{20}")


class UnreadablePath(HeadwaterError):
    """The input is not a file of a log, or cannot be opened."""


@dataclass(slots=True)
class Reported:
    """Print findings to standard error and count them."""

    count: int = 0

    def __call__(self, finding: Finding) -> None:
        self.count += 1
        typer.echo(f"{finding.file}: position {finding.position}: {finding.reason}", err=True)


def dump_path(path: Path, *, as_json: bool, with_records: bool, limit: int | None) -> int:
    """Print a file or a partition directory; return the number of findings."""
    printer: Printer = JsonPrinter() if as_json else TablePrinter()
    report = Reported()
    kind = _kind_of(path)
    try:
        if path.is_dir():
            _dump_folder(path, printer, report)
        elif kind == ".log":
            _dump_segment(path, printer, report, with_records=with_records, limit=limit)
        elif kind in ENTRY_FILES:
            _dump_entries(path, kind, printer, report, limit)
        elif path.exists():
            known = ", ".join(ENTRY_FILES)
            raise UnreadablePath(f"{path}: not a file of a log; expected .log, {known}")
        else:
            raise UnreadablePath(f"{path}: no such file or directory")
    except BrokenPipeError:
        # The reader, such as `head`, closed the pipe; the file is not at fault.
        raise
    except OSError as error:
        raise UnreadablePath(f"{path}: {error.strerror or error}") from error
    return report.count


def _dump_segment(
    path: Path, printer: Printer, report: Reported, *, with_records: bool, limit: int | None
) -> None:
    with ExitStack() as stack:
        files = _open_segment(path, stack)
        totals = Totals(path.name, indexes=_indexes_of(files))
        for item in _follow(files, path, totals, report, limit):
            if isinstance(item, ZeroTail):
                printer.message(
                    f"the last {item.size_bytes:,} bytes, from position {item.position:,} on, "
                    "are preallocated zeros"
                )
            else:
                opened = open_batch(files, item) if with_records else None
                printer.batch(item, None if opened is None else _sound(opened, report))
        totals.finding_count = report.count
        printer.summary(totals)


def _dump_folder(path: Path, printer: Printer, report: Reported) -> None:
    """Check every segment and print a summary for each."""
    logs = sorted(file for file in path.iterdir() if file.suffix == ".log")
    if not logs:
        raise UnreadablePath(f"{path}: directory without a .log file")
    for log in logs:
        before = report.count
        with ExitStack() as stack:
            files = _open_segment(log, stack)
            totals = Totals(log.name, indexes=_indexes_of(files))
            for _ in _follow(files, log, totals, report, limit=None):
                pass
        totals.finding_count = report.count - before
        printer.summary(totals)


def _dump_entries(
    path: Path, kind: str, printer: Printer, report: Reported, limit: int | None
) -> None:
    totals = Totals(path.name)
    with ReadOnlyFile(path) as file:
        totals.size_bytes = file.size()
        try:
            for item in ENTRY_FILES[kind](file, path.name, _base_offset(path) or 0):
                if isinstance(item, Finding):
                    report(item)
                elif totals.entry_count == limit:
                    totals.is_partial = True
                    break
                else:
                    totals.entry_count += 1
                    printer.entry(item)
        except CorruptFile as error:
            report(Finding(file=path.name, position=0, reason=str(error)))
    totals.finding_count = report.count
    printer.summary(totals)


def _follow(
    files: SegmentFiles, path: Path, totals: Totals, report: Reported, limit: int | None
) -> Iterator[CheckedBatch | ZeroTail]:
    """Yield the checked batches; report findings and count everything."""
    try:
        for item in check_segment(files):
            if isinstance(item, Finding):
                report(item)
            elif isinstance(item, CheckedBatch) and totals.batch_count == limit:
                totals.is_partial = True
                return
            else:
                totals.count(item)
                yield item
    except BatchError as error:
        raise UnreadablePath(f"{path}: not a segment: {error}") from error


def _sound(opened: Iterable[Record | Finding], report: Reported) -> Iterator[Record]:
    for item in opened:
        if isinstance(item, Finding):
            report(item)
        else:
            yield item


def _open_segment(path: Path, stack: ExitStack) -> SegmentFiles:
    """Open the log and the indexes next to it."""
    passing = path.name.removeprefix(_PASSING.sub("", path.name))
    stem = path.name.removesuffix(f".log{passing}")

    def beside(suffix: str) -> ReadOnlyFile | None:
        index = path.with_name(stem + suffix + passing)
        return stack.enter_context(ReadOnlyFile(index)) if index.is_file() else None

    return SegmentFiles(
        name=stem,
        base_offset=_base_offset(path),
        log=stack.enter_context(ReadOnlyFile(path)),
        index=beside(".index"),
        time_index=beside(".timeindex"),
    )


def _indexes_of(files: SegmentFiles) -> tuple[str, ...]:
    present = {".index": files.index, ".timeindex": files.time_index}
    if files.base_offset is None:
        return ()
    return tuple(suffix for suffix, file in present.items() if file is not None)


def _kind_of(path: Path) -> str:
    name = _PASSING.sub("", path.name)
    return name if name in ENTRY_FILES else Path(name).suffix


def _base_offset(path: Path) -> int | None:
    """The base offset in the file name; None for a copy under another name."""
    match = _BASE_OFFSET.match(path.name)
    return int(match[0]) if match else None


# Opens read-only because the files may belong to a running broker.
class ReadOnlyFile:
    """The read methods of the disk interface on real files; raises `OSError`."""

    def __init__(self, path: Path) -> None:
        # O_NONBLOCK: opening a named pipe must not hang.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def read(self, length: int, position: int) -> bytes:
        return os.pread(self._descriptor, length, position)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
