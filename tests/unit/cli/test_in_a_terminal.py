"""Commands in a terminal: hints, progress, wide tables, Ctrl-C."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import Admin
from headwater.testing import EmbeddedBroker
from tests.unit.cli.pseudo_terminal import NARROW, TIMEOUT_S, Terminal


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
