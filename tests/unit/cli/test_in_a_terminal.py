"""Commands in a terminal: hints, progress, wide tables, Ctrl-C."""

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
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from headwater.client import Admin
from headwater.testing import EmbeddedBroker

TIMEOUT_S = 60
NARROW = 60


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as opened:
        yield opened


@pytest.fixture
def topic(broker: EmbeddedBroker, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("_", "-")[:60]
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name)
    return name


def _without_sizes(environment: Mapping[str, str]) -> dict[str, str]:
    """Test runners set the terminal size in the environment, which would override this one."""
    return {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """A command on a pseudo terminal."""

    def __init__(self, broker: EmbeddedBroker, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, NARROW, 0, 0))
        self.screen = ""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *words, "-b", broker.bootstrap_servers],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**_without_sizes(os.environ), "TERM": "xterm"},
        )
        # A failing test leaves nothing running.
        weakref.finalize(self, self._process.kill)
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


def test_interactive_produce_prints_a_hint_and_a_summary(
    broker: EmbeddedBroker, topic: str
) -> None:
    terminal = Terminal(broker, "produce", topic)
    terminal.shows("Press Ctrl-D to finish.")
    terminal.types("green\nblack\n\x04")
    terminal.shows("2 records sent")
    assert terminal.ends() == 0


def test_a_progress_bar_is_shown_only_in_a_terminal(
    broker: EmbeddedBroker, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_text("tea\n" * 1000, encoding="utf-8")
    terminal = Terminal(broker, "produce", topic, str(file))
    terminal.shows("100%")
    terminal.shows("1000 records sent")
    assert terminal.ends() == 0
    words = ["produce", topic, str(file), "-b", broker.bootstrap_servers]
    run = subprocess.run(
        [sys.executable, "-m", "headwater", *words],
        capture_output=True, check=False, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_a_row_too_wide_for_the_terminal_is_printed_vertically(
    broker: EmbeddedBroker, topic: str
) -> None:
    terminal = Terminal(broker, "perf", "produce", topic, "-n", "100")
    terminal.shows("p99.9_ms")
    assert terminal.ends() == 0
    assert "…" not in terminal.screen


def test_rows_too_wide_for_the_terminal_are_printed_one_by_one(
    broker: EmbeddedBroker,
) -> None:
    name = "a-topic-with-a-name-of-many-letters"
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(name, partitions=2)
    terminal = Terminal(broker, "topics", "describe", name)
    assert terminal.ends() == 0
    lines = [line.rstrip() for line in terminal.screen.splitlines()]
    assert lines.count(f"topic      {name}") == 2
    assert "partition  1" in lines
    assert max(map(len, lines)) <= NARROW


def test_ctrl_c_ends_consume_and_the_group_continues_after_the_printed_records(
    broker: EmbeddedBroker, topic: str
) -> None:
    producing = Terminal(broker, "produce", topic)
    producing.shows("Press Ctrl-D to finish.")
    producing.types("green\nblack\n\x04")
    assert producing.ends() == 0
    terminal = Terminal(broker, "consume", topic, "-g", "drinkers", "-f")
    terminal.shows("Waiting for records. Press Ctrl-C to exit.")
    terminal.shows("black")
    terminal.presses_ctrl_c()
    assert terminal.ends() == 0
    assert "Traceback" not in terminal.screen
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("drinkers")
    assert [each.offset for each in committed.values()] == [2]


def test_ctrl_c_ends_produce_without_a_traceback_and_sends_the_typed_lines(
    broker: EmbeddedBroker, topic: str
) -> None:
    terminal = Terminal(broker, "produce", topic)
    terminal.shows("Press Ctrl-D to finish.")
    terminal.types("green\n")
    reading = Terminal(broker, "consume", topic, "-f", "-n", "1")
    reading.shows("green")
    assert reading.ends() == 0
    terminal.presses_ctrl_c()
    assert terminal.ends() == 130
    assert "Traceback" not in terminal.screen
