"""Which pipelines run on this machine: a small file for each, and a lock that lives with its run.

    folder/orders-to-lake.json     what it is and how far, replaced as a whole
    folder/orders-to-lake.lock     locked by the run as long as it lives

What a reader would get wrong: the number of a process in the file proves nothing, since numbers are
given anew. Only the lock says whether a pipeline runs; the kernel lets go of it when a run dies.
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

# Kind, from where, start, length, owner; a lock belongs to an open file, and not to a process.
_LOCK: Final = struct.Struct("hhqqi")


class AlreadyRunning(HeadwaterError):
    """Another process runs the pipeline of that name."""


class NoSuchRun(HeadwaterError):
    """No pipeline of that name has been run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a run tells about itself."""

    name: str
    file: str
    pid: int
    started_ms: int
    told_ms: int
    # As told by the run; a run that died cannot say so, see `is_running`.
    state: str
    sinks: list[dict[str, Any]] = field(default_factory=list)
    is_running: bool = False


def usual_folder(environment: Mapping[str, str]) -> Path:
    """Where runs leave their files, if nothing else is said."""
    named = environment.get(FOLDER_VARIABLE)
    if named:
        return Path(named)
    state = environment.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "headwater" / "pipelines"


class RunFile:
    """A run's own file; locked from `with` to its end."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._lock: int | None = None

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

    def tell(self, report: RunReport) -> None:
        """Replace what was told before."""
        file = self._folder / f"{self._name}.json"
        draft = file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(report)), encoding="utf-8")
        draft.replace(file)


def reports(folder: Path) -> list[RunReport]:
    """Every pipeline that has been run, by name."""
    if not folder.is_dir():
        return []
    names = sorted(each.stem for each in folder.glob("*.json"))
    return [report(folder, name) for name in names]


def report(folder: Path, name: str) -> RunReport:
    try:
        told = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NoSuchRun(f"no pipeline {name} has been run here") from None
    told["is_running"] = is_running(folder, name)
    return RunReport(**told)


def is_running(folder: Path, name: str) -> bool:
    try:
        descriptor = os.open(_lock_of(folder, name), os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # Only asks: who held it for a moment to see would keep a run from starting.
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
    """A lock of the whole file for one writer, as the kernel's `struct flock` has it."""
    return _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def _lock_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.lock"
