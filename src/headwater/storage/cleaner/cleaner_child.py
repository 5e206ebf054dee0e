"""Child process that cleans a log.

`python -m headwater.storage.cleaner.cleaner_child PARENT_PID`

It reads its job from stdin and writes the result to stdout, as lines of `cleaning_job_json`. It
never renames files and touches only files of its own, so it can be killed at any moment.

It must not outlive its parent, because a restarted broker may clean the same log. On Linux the
kernel kills it when the thread that started it ends; and stdin, which the parent keeps open, ends
with the parent.
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
from headwater.storage.cleaner.cleaning_job_json import (
    outcome_line,
    progress_line,
    read_io_limit,
    read_job,
)
from headwater.storage.cleaner.io_throttle import CleaningProgress, IoThrottle
from headwater.storage.cleaner.segment_reader import Throttle, unthrottled
from headwater.storage.io.disk import Disk
from headwater.storage.io.os_disk import OsDisk

NICENESS = 10
ORPHANED = 3
PROGRESS_EVERY_BYTES = 64 * 1024 * 1024

_PR_SET_PDEATHSIG = 1


def main() -> None:
    die_with_parent(int(sys.argv[1]))
    # Ctrl-C signals the whole process group; the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    line = sys.stdin.readline()
    if not line:
        sys.exit(ORPHANED)
    job = read_job(line)
    throttle = IoThrottle(job.io_max_bytes_per_second, now=time.monotonic, sleep=time.sleep)
    threading.Thread(target=_follow_parent, args=(sys.stdin, throttle), daemon=True).start()
    _write_line(outcome_line(run(OsDisk(), job, throttle)))


def die_with_parent(parent_pid: int) -> None:
    """Have the kernel kill this process when its parent ends.

    `headwater.process.die_with_parent` does the same for other programs, but runs as a standalone
    file and belongs to a higher layer.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the call above took effect.
    if os.getppid() != parent_pid:
        sys.exit(ORPHANED)


def run(
    disk: Disk, job: CleaningJob, io_throttle: Throttle = unthrottled
) -> CleaningResult | CleaningFailure:
    """Run the job; return failures of the log or the disk as values."""
    progress = CleaningProgress(PROGRESS_EVERY_BYTES, lambda done: _write_line(progress_line(done)))

    def throttle(moved_bytes: int) -> None:
        progress(moved_bytes)
        io_throttle(moved_bytes)

    try:
        # Old and new segments exist side by side until file.delete.delay.ms after the swap.
        needed_bytes = sum(source.size_bytes for source in job.sources)
        free_bytes = disk.volume(job.folder).usable_bytes
        if free_bytes < needed_bytes:
            reason = (
                f"{needed_bytes} bytes may be needed in {job.folder}, only {free_bytes} are free"
            )
            return CleaningFailure(FailureKind.NO_SPACE, reason)
        return clean(disk, job, throttle)
    except BatchError as error:
        return CleaningFailure(FailureKind.CORRUPT, str(error))
    except StorageError as error:
        return CleaningFailure(FailureKind.STORAGE, str(error))


def _follow_parent(stdin: TextIO, throttle: IoThrottle) -> None:
    """Apply the parent's I/O limits; end with it."""
    for line in stdin:
        if line.endswith("\n"):
            throttle.limit(read_io_limit(line))
    # The parent has exited; its next start removes these files.
    os._exit(ORPHANED)


def _write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
