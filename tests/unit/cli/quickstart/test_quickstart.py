"""The orientation of `headwater` alone, and the tour in a terminal and without one."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.cli.quickstart.tour import BOOTSTRAP, Serve, ready_address, shown_lines, tour
from headwater.cli.quickstart.tour_processes import CommandFailed, TourProcesses
from tests.unit.cli.pseudo_terminal import TIMEOUT_S, Terminal

STEPS = 6


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which tours make theirs; nothing may be left in it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("HEADWATER_COMMAND_CONFIG", str(tmp_path / "of-another-cluster"))
    return tmp_path


def test_headwater_alone_names_three_commands_that_exist_and_the_documentation() -> None:
    result = CliRunner().invoke(app, [])
    assert result.exit_code == 0
    names = re.findall(r"^  headwater (\w+(?: \w+)?)  ", result.stdout, re.MULTILINE)
    assert names == ["quickstart", "start", "console start"]
    for name in names:
        assert CliRunner().invoke(app, [*name.split(), "--help"]).exit_code == 0
    page = re.search(r"^  documentation +(\S+)$", result.stdout, re.MULTILINE)
    assert page is not None
    assert Path(page[1]).is_file()
    assert len(result.stdout.splitlines()) < 15


def test_an_unknown_command_is_still_an_error() -> None:
    assert CliRunner().invoke(app, ["quickstrat"]).exit_code == 2


def test_without_a_terminal_the_tour_asks_for_yes(temporary: Path) -> None:
    result = CliRunner().invoke(app, ["quickstart"])
    assert result.exit_code == 2
    assert "--yes" in result.output
    assert list(temporary.iterdir()) == []


def test_the_tour_shows_runs_and_removes_everything(temporary: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "quickstart", "--yes", "--no-pipeline"],
        env={**os.environ, "PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "$ unset HEADWATER_COMMAND_CONFIG" in lines
    address = next(each for each in lines if each.startswith(f"$ export {BOOTSTRAP}="))
    assert re.search(
        rf"^headwater ready on {address.partition('=')[2]} ", done.stdout, re.MULTILINE
    )
    for value in ("green", "black", "white"):
        assert done.stdout.count(f'"kind": "{value}"') >= 2
    assert re.search(r"^TOPIC  PARTITION  OFFSET  END  LAG", done.stdout, re.MULTILINE)
    assert re.search(
        r"^headwater console ready on http://127\.0\.0\.1:\d+ ", done.stdout, re.MULTILINE
    )
    assert "The tour has ended" in done.stdout
    assert list(temporary.iterdir()) == []


@pytest.mark.spark
def test_the_tour_runs_a_pipeline(temporary: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "quickstart", "--yes"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    copied = done.stdout.partition("headwater consume large-cups")[2].splitlines()[1:3]
    assert sorted(copied) == [
        'green {"kind":"green","grams":120}',
        'white {"kind":"white","grams":250}',
    ]
    assert list(temporary.iterdir()) == []


def test_in_a_terminal_each_step_waits_and_ctrl_c_leaves_nothing_behind(temporary: Path) -> None:
    terminal = Terminal(None, "quickstart")
    terminal.shows("Press Enter to run")
    assert "headwater ready on" not in terminal.screen
    terminal.types("\n")
    terminal.shows(f"export {BOOTSTRAP}=")
    terminal.shows(f"2/{STEPS} Create a topic")
    assert len(list(temporary.glob("headwater-quickstart-*/data"))) == 1
    terminal.shows("$ headwater topics create tea --partitions 2")
    terminal.presses_ctrl_c()
    assert terminal.ends() == 130
    assert "Traceback" not in terminal.screen
    assert list(temporary.iterdir()) == []


def test_q_ends_the_tour_and_sigterm_cleans_up(temporary: Path) -> None:
    terminal = Terminal(None, "quickstart")
    terminal.shows("Press Enter to run")
    terminal.types("q\n")
    assert terminal.ends() == 0
    other = Terminal(None, "quickstart")
    other.shows("Press Enter to run")
    other.types("\n")
    other.shows(f"export {BOOTSTRAP}=")
    os.kill(other.pid, signal.SIGTERM)
    assert other.ends() == 143
    assert list(temporary.iterdir()) == []


def test_a_server_that_does_not_start_is_reported_with_its_log(temporary: Path) -> None:
    with TourProcesses(os.environ) as processes:
        command = Serve(line="headwater start --listen 127.0.0.1:x --data data", ready="never")
        with pytest.raises(CommandFailed, match=r"exit code \d+ before ready\n  headwater: "):
            processes.serve(command)
    assert list(temporary.iterdir()) == []


def test_servers_are_stopped_before_the_folder_is_removed(temporary: Path) -> None:
    command = Serve(
        line="headwater start --listen 127.0.0.1:0 --data data", ready="headwater ready on "
    )
    with TourProcesses(os.environ) as processes:
        _, address = processes.serve(command)
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port)), TIMEOUT_S):
            pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), TIMEOUT_S)
    assert list(temporary.iterdir()) == []


def test_steps_that_cannot_run_say_what_to_install() -> None:
    steps = tour("/tmp/t", missing_for_console="install a", missing_for_pipeline="install b")
    assert [each.missing for each in steps] == [None] * 4 + ["install a", "install b"]


def test_a_server_is_shown_in_the_background_and_its_address_is_read() -> None:
    command = Serve(line="headwater start", ready="headwater ready on ")
    assert list(shown_lines(command)) == ["$ headwater start &"]
    assert ready_address("headwater ready on 127.0.0.1:1 (node 0)", command) == "127.0.0.1:1"
    assert ready_address("Loading", command) is None
