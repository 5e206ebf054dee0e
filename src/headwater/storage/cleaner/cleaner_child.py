"""The process that cleans: `python -m headwater.storage.cleaner.cleaner_child PARENT_PID`.

It reads its job from stdin and answers on stdout, in the lines of `cleaning_job_json`. It never
renames and never touches a file that is not its own, so it can be killed at any moment.

It must not outlive its parent, whose successor may clean the same log. Two things see to it: the
kernel kills it when the thread that started it ends (Linux), and stdin, which the parent keeps
open, ends when the parent does.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from typing import TextIO

from headwater.common.exceptions import BatchError, StorageError
from headwater.storage.cleaner.cleaner import clean
from headwater.storage.cleaner.cleaning_job import (
    CleaningFailure,
    CleaningJob,
    CleaningResult,
    FailureKind,
)
from headwater.storage.cleaner.cleaning_job_json import outcome_line, progress_line, read_job
from headwater.storage.cleaner.io_throttle import CleaningProgress, IoThrottle
from headwater.storage.io.disk import Disk
from headwater.storage.io.os_disk import OsDisk

NICENESS = 10
ORPHANED = 3
PROGRESS_EVERY_BYTES = 64 * 1024 * 1024

_PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    # Ctrl-C in a terminal goes to the whole group; the parent decides what becomes of us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    line = sys.stdin.readline()
    if not line:
        sys.exit(ORPHANED)
    threading.Thread(target=_leave_when_closed, args=(sys.stdin,), daemon=True).start()
    _say(outcome_line(run(OsDisk(), read_job(line))))


def die_with_parent(parent_pid: int) -> None:
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the line above took effect.
    if os.getppid() != parent_pid:
        sys.exit(ORPHANED)


def run(disk: Disk, job: CleaningJob) -> CleaningResult | CleaningFailure:
    """Do the job; what goes wrong with the log or the disk comes back as a value."""
    throttle = IoThrottle(job.io_max_bytes_per_second, now=time.monotonic, sleep=time.sleep)
    progress = CleaningProgress(PROGRESS_EVERY_BYTES, lambda done: _say(progress_line(done)))

    def pace(moved_bytes: int) -> None:
        progress(moved_bytes)
        throttle(moved_bytes)

    try:
        # Old and new segments exist side by side until the swap, and old ones for a while after.
        needed_bytes = sum(source.size_bytes for source in job.sources)
        free_bytes = disk.volume(job.folder).usable_bytes
        if free_bytes < needed_bytes:
            reason = f"{needed_bytes} bytes may be needed in {job.folder}, {free_bytes} are free"
            return CleaningFailure(FailureKind.NO_SPACE, reason)
        return clean(disk, job, pace)
    except BatchError as error:
        return CleaningFailure(FailureKind.DAMAGED, str(error))
    except StorageError as error:
        return CleaningFailure(FailureKind.STORAGE, str(error))


def _leave_when_closed(stdin: TextIO) -> None:
    stdin.read()
    # The parent is gone, and so is whoever would clean up: its next start removes our files.
    os._exit(ORPHANED)


def _say(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
