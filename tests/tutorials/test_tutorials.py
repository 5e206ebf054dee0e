"""The tutorials run as written: every shell, Python and YAML block in order, in an empty folder.

Only addresses are replaced, by those of a broker or a cluster that the test starts on free ports,
and `pip install`, whose extras must exist. A block without a language is what the block before it
prints.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from headwater.network.free_ports import free_ports
from tests.tutorials.tutorial_page import ROOT, Block, blocks, commands

TIMEOUT_S: Final = 240
LISTEN: Final = "127.0.0.1:9092"
# Commands that run until Ctrl-C, and what they print once they serve.
SERVERS: Final = {
    "headwater console start": "console ready on",
    "headwater cluster start": "headwater ready on",
}
# For other machines than the reader's: shown, not run.
ELSEWHERE: Final = ("headwater zookeeper ", "headwater start --zookeeper ")


class Reader:
    """A user in an empty folder who types what a page says."""

    def __init__(self, folder: Path, replaced: dict[str, str], printed: str = "") -> None:
        self.folder = folder
        self.replaced = replaced
        self.printed = printed
        self.servers = ExitStack()
        self.run_commands: list[str] = []
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HEADWATER_BOOTSTRAP": replaced.get(LISTEN, LISTEN),
            "XDG_STATE_HOME": str(folder / "state"),
            "COLUMNS": "200",
        }

    def read(self, page: str) -> None:
        with self.servers:
            self._read(page)

    def _read(self, page: str) -> None:
        for block in blocks(page):
            if block.saved_as is not None:
                (self.folder / block.saved_as).write_text(self._here(block.text), encoding="utf-8")
            elif block.language == "sh":
                self._type(block)
            elif block.language == "python":
                self.printed = self._run([sys.executable, "-c", self._here(block.text)])
            elif not block.language:
                self._compare(block.text)

    def _here(self, text: str) -> str:
        for written, real in self.replaced.items():
            text = text.replace(written, real)
        return text

    def _type(self, block: Block) -> None:
        self.printed = ""
        for command in commands(block):
            self.run_commands.append(command)
            if command.startswith("pip install"):
                _check_extras(command)
            elif command.startswith(("export PATH=", *ELSEWHERE)):
                continue
            elif command.startswith(tuple(SERVERS)):
                self._serve(command)
            else:
                self.printed += self._run(["bash", "-euo", "pipefail", "-c", self._here(command)])

    def _run(self, arguments: list[str]) -> str:
        done = subprocess.run(
            arguments,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == 0, f"{arguments[-1]}\n{done.stdout}"
        assert "Traceback" not in done.stdout, f"{arguments[-1]}\n{done.stdout}"
        return done.stdout

    def _serve(self, command: str) -> None:
        """Start a server and wait until it is ready; it is stopped at the end of the page."""
        command = self._here(command)
        if command.startswith("headwater console"):
            command += " --listen 127.0.0.1:0"
        ready = next(line for start, line in SERVERS.items() if command.startswith(start))
        self.printed = self.servers.enter_context(
            serving(command.split(), ready, self.folder, self.environment)
        )

    def _compare(self, shown: str) -> None:
        """Compare what was printed with the page; `...` on the page stands for anything."""
        pattern = re.escape(self._here(shown.strip())).replace(r"\.\.\.", ".*")
        assert re.search(pattern, self.printed, re.DOTALL), f"{shown}\n--- printed:\n{self.printed}"


def _check_extras(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.search(r"\[([\w,]+)\]", command)
    assert named is not None, command
    assert set(named[1].split(",")) <= set(project["optional-dependencies"])


@contextmanager
def serving(
    arguments: list[str], ready: str, folder: Path, environment: dict[str, str]
) -> Iterator[str]:
    """A command that runs until Ctrl-C; yields the line that says where it serves."""
    process = subprocess.Popen(
        arguments,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    watchdog = threading.Timer(TIMEOUT_S, process.kill)
    watchdog.start()
    try:
        assert process.stdout is not None
        before = []
        for line in process.stdout:
            before.append(line)
            if ready in line:
                yield line
                break
        else:
            raise AssertionError("".join(before))
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait() == 0
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """The broker of `make run`, on a free port, with its data in `./data` as the pages say."""
    command = [str(Path(sys.executable).parent / "headwater"), "start"]
    command += ["--listen", "127.0.0.1:0", "--data", "./data"]
    with serving(command, "headwater ready on", folder, dict(os.environ)) as line:
        yield line


def free_base_port() -> int:
    """The first of three free ports in a row."""
    for candidate in free_ports("127.0.0.1", 50):
        with ExitStack() as sockets, suppress(OSError):
            for port in range(candidate, candidate + 3):
                sockets.enter_context(socket.create_server(("127.0.0.1", port)))
            return candidate
    raise AssertionError("no three free ports in a row")


@pytest.mark.parametrize("page", ["first-five-minutes.md", "first-pipeline.md"])
def test_tutorial_on_one_broker_runs_as_written(tmp_path: Path, page: str) -> None:
    with broker(tmp_path) as ready:
        found = re.search(r"ready on (\S+)", ready)
        assert found is not None
        reader = Reader(tmp_path, {LISTEN: found[1]}, printed=ready)
        reader.read(f"tutorials/{page}")
    assert len(reader.run_commands) >= 5


def test_tutorial_on_a_cluster_runs_as_written(tmp_path: Path) -> None:
    base = free_base_port()
    reader = Reader(tmp_path, {str(9192 + each): str(base + each) for each in range(3)})
    reader.read("tutorials/cluster.md")
    assert len(reader.run_commands) >= 7
