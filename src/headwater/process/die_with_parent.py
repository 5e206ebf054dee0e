"""Becomes another program that ends with its parent: `python bound_child.py PARENT_PID PROGRAM...`

What a reader would get wrong: this is run as a file, in a process of its own, and imports nothing
of ours. A program that we did not write cannot ask the kernel for its parent's death itself, and
asking between fork and exec is not safe in a process that has threads.
"""

import ctypes
import os
import signal
import sys

ORPHANED = 3

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent_pid, *command = sys.argv[1:]
    # Where the kernel cannot do it, the parent still ends us when it ends in good order.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The parent may have died before the line above took effect.
    if os.getppid() != int(parent_pid):
        sys.exit(ORPHANED)
    # Ctrl-C in a terminal goes to the whole group; the parent decides what becomes of us.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
