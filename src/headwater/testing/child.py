"""The process of an embedded broker: `python -m headwater.testing.child PARENT FOLDER ARGUMENT...`

It is the `headwater` command with these arguments, and besides a thread that waits for the parent
to be gone, however it went, and then ends the process and removes the folder (none with `-`).

What a reader would get wrong: asking the kernel for a signal at the parent's death would not do.
Linux sends it when the *thread* that started us ends, and tests start brokers in threads. So we
wait for the process itself, by a descriptor that stands for it, and where there is none for the end
of standard input, which the parent holds open. The latter alone would not do either: whatever the
parent forks holds it open too.
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
    # No event is asked for: that the other end was closed is told in any case.
    poll.register(_STANDARD_INPUT, 0)
    if hasattr(os, "pidfd_open"):
        # It fails where there is no such process, which is seen below, or no such call.
        with suppress(OSError):
            poll.register(os.pidfd_open(parent_pid), select.POLLIN)
    if os.getppid() != parent_pid:
        # It has ended meanwhile, and its number may be another's.
        sys.exit(ORPHANED)
    return poll


def _leave_with_parent(poll: select.poll, folder: Path | None) -> None:
    poll.poll()
    if folder is not None:
        _remove(folder)
    os._exit(ORPHANED)


def _remove(folder: Path) -> None:
    """The broker still runs: under another name it cannot put anything back."""
    condemned = folder.with_name(f"{folder.name}.gone")
    try:
        folder.rename(condemned)
    except OSError:
        condemned = folder
    shutil.rmtree(condemned, ignore_errors=True)


if __name__ == "__main__":
    main()
