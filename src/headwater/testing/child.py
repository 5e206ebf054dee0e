"""The process of an embedded broker.

`python -m headwater.testing.child PARENT FOLDER ARGUMENT...`

Runs the `headwater` command with these arguments, and a thread that waits until the parent has
exited for any reason, and then ends the process and removes the folder (none with `-`).

Note: PR_SET_PDEATHSIG would not work: Linux sends the signal when the *thread* that started us
ends, and tests start brokers in threads. So we wait for a pidfd of the parent, and where there is
none for the end of standard input, which the parent holds open. The latter alone would not work
either: processes forked by the parent hold it open, too.
"""

import os
import runpy
import select
import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path

ORPHANED = 3

_STANDARD_INPUT = 0


def main() -> None:
    parent_pid, folder, *arguments = sys.argv[1:]
    poll = _poll_for(int(parent_pid))
    leaving = None if folder == "-" else Path(folder)
    threading.Thread(target=_leave_with_parent, args=(poll, leaving), daemon=True).start()
    sys.argv = ["headwater", *arguments]
    runpy.run_module("headwater", run_name="__main__")


def _poll_for(parent_pid: int) -> select.poll:
    poll = select.poll()
    # No events requested: a hangup is always reported.
    poll.register(_STANDARD_INPUT, 0)
    if hasattr(os, "pidfd_open"):
        # Fails if the process is gone, which is checked below, or without this system call.
        with suppress(OSError):
            poll.register(os.pidfd_open(parent_pid), select.POLLIN)
    if os.getppid() != parent_pid:
        # The parent has exited, and its pid may have been reused.
        sys.exit(ORPHANED)
    return poll


def _leave_with_parent(poll: select.poll, folder: Path | None) -> None:
    poll.poll()
    if folder is not None:
        _remove(folder)
    os._exit(ORPHANED)


def _remove(folder: Path) -> None:
    """Rename the folder first, so that a running broker cannot write to it."""
    condemned = folder.with_name(f"{folder.name}.gone")
    try:
        folder.rename(condemned)
    except OSError:
        condemned = folder
    shutil.rmtree(condemned, ignore_errors=True)


if __name__ == "__main__":
    main()
