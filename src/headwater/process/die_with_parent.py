"""Run a program that ends with its parent process.

`python die_with_parent.py PARENT_PID PROGRAM...`

Note: this runs as a file in its own process and imports nothing of Headwater. A foreign program
cannot request PR_SET_PDEATHSIG itself, and requesting it between fork and exec is not safe in a
process with threads.
"""

import ctypes
import os
import signal
import sys

ORPHANED = 3

_PR_SET_PDEATHSIG = 1


def main() -> None:
    parent_pid, *command = sys.argv[1:]
    # On other systems the parent ends this process only if it shuts down cleanly.
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    # The parent may have died before the call above took effect.
    if os.getppid() != int(parent_pid):
        sys.exit(ORPHANED)
    # Ctrl-C signals the whole process group; the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
