"""The supervisor of child processes: readiness, restarts, output, signals."""

import asyncio
import io
import os
import signal
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headwater.process.supervisor import ProcessSupervisor, RestartBackoff, SupervisedCommand

TIMEOUT_S = 60
READY = "print('headwater ready', flush=True)"
STAY = "import signal; signal.pause()"


def child(name: str, *lines: str) -> SupervisedCommand:
    return SupervisedCommand(
        name=name, command=[sys.executable, "-c", "\n".join(["import os, sys", *lines])]
    )


def label(name: str, line: bytes) -> bytes:
    return f"{name}: ".encode() + line


def run(
    output: io.BytesIO, *children: SupervisedCommand, stops_when_ready: bool = False
) -> tuple[bool, int]:
    """Run until a signal; return the outcome and how often all were ready."""
    ready = []

    def on_ready() -> None:
        ready.append(1)
        if stops_when_ready:
            os.kill(os.getpid(), signal.SIGTERM)

    supervisor = ProcessSupervisor(children, label=label, output=output)
    running = supervisor.run(ready=on_ready)
    outcome = asyncio.run(asyncio.wait_for(running, TIMEOUT_S))
    return outcome, len(ready)


def test_output_is_labelled_and_all_end_with_a_signal() -> None:
    output = io.BytesIO()
    write = "print('line', file=sys.stderr, flush=True)"
    children = [child("a", write, READY, STAY), child("b", write, READY, STAY)]
    assert run(output, *children, stops_when_ready=True) == (True, 1)
    assert sorted(output.getvalue().splitlines()) == [b"a: line", b"b: line"]


def test_child_that_is_never_ready_ends_the_others() -> None:
    output = io.BytesIO()
    refused = "print('no space', file=sys.stderr); sys.exit(2)"
    assert run(output, child("a", READY, STAY), child("b", refused)) == (False, 0)
    assert output.getvalue() == b"b: no space\n"


def test_child_that_exits_is_restarted(tmp_path: Path) -> None:
    """The child counts its runs, crashes in the first two, and stops the test in the third."""
    runs = tmp_path / "runs"
    lines = (
        f"with open({str(runs)!r}, 'a') as file: file.write('x')",
        READY,
        f"count = os.path.getsize({str(runs)!r})",
        "if count < 3: os.kill(os.getpid(), 9)",
        f"os.kill({os.getpid()}, 15)",
        STAY,
    )
    assert run(io.BytesIO(), child("a", *lines)) == (True, 1)
    assert runs.read_text() == "xxx"


@given(st.lists(st.integers(0, 2 * RestartBackoff.STABLE_MS), max_size=40))
def test_wait_doubles_up_to_a_limit_and_starts_over_after_a_stable_run(runs: list[int]) -> None:
    backoff = RestartBackoff()
    expected = RestartBackoff.FIRST_MS
    for ran_ms in runs:
        if ran_ms >= RestartBackoff.STABLE_MS:
            expected = RestartBackoff.FIRST_MS
        assert backoff.after_exit(ran_ms) == expected
        expected = min(2 * expected, RestartBackoff.LONGEST_MS)
