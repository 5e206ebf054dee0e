"""Files that show which pipelines run on this machine.

    folder/orders-to-lake.json         the run's last report, replaced as a whole
    folder/orders-to-lake.lock         locked as long as the run is alive
    folder/orders-to-lake.spark.log    what Spark and its workers print on this machine

Note: the process id in the report proves nothing, since systems reuse process ids. Only the lock
shows whether a pipeline runs; the kernel releases it when the process dies.
"""

import fcntl
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headwater.common.exceptions import HeadwaterError

FOLDER_VARIABLE: Final = "HEADWATER_PIPELINES"

# l_type, l_whence, l_start, l_len, l_pid; an OFD lock belongs to an open file, not to a process.
_LOCK: Final = struct.Struct("hhqqi")


class AlreadyRunning(HeadwaterError):
    """Another process runs a pipeline with this name."""


class NoSuchRun(HeadwaterError):
    """No pipeline with this name has been run on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """The state of a run, as the run reports it."""

    name: str
    file: str
    pid: int
    started_ms: int
    told_ms: int
    # As reported by the run. A run that died could not report it: see `is_running`.
    state: str
    sinks: list[dict[str, Any]] = field(default_factory=list)
    is_running: bool = False


def usual_folder(environment: Mapping[str, str]) -> Path:
    """The default folder for the files of runs."""
    named = environment.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    state = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "headwater" / "pipelines"


class RunFile:
    """The files of one run, locked as long as the context is open."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._lock: int | None = None
        self.spark_log = folder / f"{name}.spark.log"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(_lock_of(self._folder, self._name), os.O_RDWR | os.O_CREAT, 0o600)
        if not _locked(descriptor):
            os.close(descriptor)
            raise AlreadyRunning(
                f"the pipeline {self._name} runs already: see headwater pipeline status"
            )
        self._lock = descriptor
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def write(self, report: RunReport) -> None:
        """Replace the last report."""
        file = self._folder / f"{self._name}.json"
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(report)), encoding="utf-8")
        draft.replace(file)


def reports(folder: Path) -> list[RunReport]:
    """The last report of every pipeline, sorted by name."""
    if not folder.is_dir():
        return []
    names = sorted(each.stem for each in folder.glob("*.json"))
    return [report(folder, name) for name in names]


def report(folder: Path, name: str) -> RunReport:
    try:
        report = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoSuchRun(f"no pipeline {name} has been run here") from None
    report["is_running"] = is_running(folder, name)
    return RunReport(**report)


def is_running(folder: Path, name: str) -> bool:
    try:
        descriptor = os.open(_lock_of(folder, name), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # Query the lock without acquiring it: a lock held for a moment could fail a starting run.
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _wanted())
    finally:
        os.close(descriptor)
    kind: int = _LOCK.unpack(found)[0]
    return kind != fcntl.F_UNLCK


def _locked(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _wanted())
    except BlockingIOError:
        return False
    return True


def _wanted() -> bytes:
    """Return a `struct flock` for an exclusive lock of the whole file."""
    return _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def _lock_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"
