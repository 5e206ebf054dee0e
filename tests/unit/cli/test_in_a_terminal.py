"""Commands as a person meets them, in a terminal: hints, progress, wide tables, Ctrl-C."""

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

PATIENCE_S = 60
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
    """What runs tests side by side sets the size of terminals, and it would win over this one's."""
    return {name: value for name, value in environment.items() if name not in ("COLUMNS", "LINES")}


class Terminal:
    """One command on a pseudo terminal of its own."""

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
        # A test that fails leaves nothing running.
        weakref.finalize(self, self._process.kill)
        os.close(theirs)

    def shows(self, text: str) -> None:
        """Wait until the screen has a text."""
        limit_s = time.monotonic() + PATIENCE_S
        while text not in self.screen:
            assert time.monotonic() < limit_s, f"{text!r} is not in {self.screen!r}"
            assert self._read(), f"{text!r} is not in {self.screen!r}"

    def types(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def presses_ctrl_c(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def ends(self) -> int:
        """Its exit code; the screen is whole then."""
        limit_s = time.monotonic() + PATIENCE_S
        while self._read():
            assert time.monotonic() < limit_s, self.screen
        os.close(self._ours)
        return self._process.wait(PATIENCE_S)

    def _read(self) -> bool:
        """Take what has come; false at the end."""
        ready, _, _ = select.select([self._ours], [], [], 1)
        if not ready:
            return True
        try:
            got = os.read(self._ours, 65536)
        except OSError:
            # How Linux tells that nobody has the other side open any more.
            return False
        self.screen += got.decode(errors="replace")
        return bool(got)


def test_producing_by_hand_says_how_it_ends_and_what_it_did(
    broker: EmbeddedBroker, topic: str
) -> None:
    terminal = Terminal(broker, "produce", topic)
    terminal.shows("Ctrl-D ends.")
    terminal.types("green\nblack\n\x04")
    terminal.shows("2 records sent")
    assert terminal.ends() == 0


def test_a_file_has_a_progress_bar_in_a_terminal_and_none_in_a_pipe(
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
        capture_output=True, check=False, timeout=PATIENCE_S,
    )  # fmt: skip
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_figures_that_are_too_wide_for_the_terminal_stand_upright(
    broker: EmbeddedBroker, topic: str
) -> None:
    terminal = Terminal(broker, "perf", "produce", topic, "-n", "100")
    terminal.shows("p99.9_ms")
    assert terminal.ends() == 0
    assert "…" not in terminal.screen


def test_rows_that_are_too_wide_for_the_terminal_stand_upright_each_for_itself(
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


def test_ctrl_c_ends_consuming_well_and_the_group_goes_on_behind_what_was_shown(
    broker: EmbeddedBroker, topic: str
) -> None:
    producing = Terminal(broker, "produce", topic)
    producing.shows("Ctrl-D ends.")
    producing.types("green\nblack\n\x04")
    assert producing.ends() == 0
    terminal = Terminal(broker, "consume", topic, "-g", "drinkers", "-f")
    terminal.shows("Waiting for records. Ctrl-C ends.")
    terminal.shows("black")
    terminal.presses_ctrl_c()
    assert terminal.ends() == 0
    assert "Traceback" not in terminal.screen
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("drinkers")
    assert [each.offset for each in committed.values()] == [2]


def test_ctrl_c_ends_producing_without_a_traceback_and_what_was_typed_is_sent(
    broker: EmbeddedBroker, topic: str
) -> None:
    terminal = Terminal(broker, "produce", topic)
    terminal.shows("Ctrl-D ends.")
    terminal.types("green\n")
    reading = Terminal(broker, "consume", topic, "-f", "-n", "1")
    reading.shows("green")
    assert reading.ends() == 0
    terminal.presses_ctrl_c()
    assert terminal.ends() == 130
    assert "Traceback" not in terminal.screen
