"""A `headwater` command on a pseudo terminal."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import weakref
from collections.abc import Mapping

from headwater.testing import EmbeddedBroker

TIMEOUT_S = 60
NARROW = 60


def _without_sizes(environment: Mapping[str, str]) -> dict[str, str]:
    """Test runners set the terminal size in the environment, which would override this one."""
    return {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(TIMEOUT_S)


class Terminal:
    """A command on a pseudo terminal, for a broker if one is given."""

    def __init__(self, broker: EmbeddedBroker | None, *words: str) -> None:
        given = () if broker is None else ("-b", broker.bootstrap_servers)
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, NARROW, 0, 0))
        self.screen = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *words, *given],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**_without_sizes(os.environ), "TERM": "xterm"},
        )
        # A failing test leaves nothing running.
        weakref.finalize(self, _kill, self._process)
        os.close(theirs)

    def shows(self, text: str) -> None:
        """Wait until the screen shows a text."""
        limit_s = time.monotonic() + TIMEOUT_S
        while text not in self.screen:
            assert time.monotonic() < limit_s, f"{text!r} is not in {self.screen!r}"
            assert self._read(), f"{text!r} is not in {self.screen!r}"

    def types(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def presses_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ends(self) -> int:
        """The exit code, after all output has been read."""
        limit_s = time.monotonic() + TIMEOUT_S
        while self._read():
            assert time.monotonic() < limit_s, self.screen
        os.close(self._ours)
        return self._process.wait(TIMEOUT_S)

    def _read(self) -> bool:
        """Read available output; False at the end."""
        ready, _, _ = select.select([self._ours], [], [], 1)
        if not ready:
            return True
        try:
            got = os.read(self._ours, 65536)
        except OSError:
            # Linux reports a closed other side with EIO.
            return False
        self.screen += got.decode(errors="replace")
        return bool(got)
