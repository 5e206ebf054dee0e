"""Clients in other languages as peers: npm and Go packages in the peers' directory.

`make peers` downloads them if their tools are installed, and says so otherwise. Programs that use
them are in `tests/peers/programs`.

Note: Go compiles when a test runs, from the downloaded packages, so that a changed program needs no
new download.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from tests.peers.jars import peers_folder

PROGRAMS: Final = Path(__file__).parent / "programs"
_KAFKAJS: Final = "kafkajs@2.2.4"
_TIMEOUT_S: Final = 280

Command = Callable[[Path], list[str]]


def kafkajs_absence() -> str | None:
    return _absence("node", "kafkajs")


def franz_go_absence() -> str | None:
    return _absence("go", "franz-go")


def run_kafkajs(*arguments: str) -> str:
    modules = {"NODE_PATH": str(peers_folder() / "kafkajs" / "node_modules")}
    return _run(["node", str(PROGRAMS / "kafkajs.js"), *arguments], modules)


def run_franz_go(folder: Path, *arguments: str) -> str:
    """Compile the program into a directory, and run it."""
    program = folder / "franz-go"
    build = ["go", "-C", str(PROGRAMS / "franz-go"), "build", "-o", str(program), "."]
    _run(build, {**_go(peers_folder() / "franz-go"), "GOPROXY": "off"})
    return _run([str(program), *arguments], {})


def fetch_packages() -> None:
    """Download what is possible, and print what is not."""
    _fetch("npm", "kafkajs", lambda into: ["npm", "install", "--prefix", str(into), _KAFKAJS])
    _fetch("go", "franz-go", lambda _: ["go", "-C", str(PROGRAMS / "franz-go"), "mod", "download"])


def _fetch(tool: str, name: str, command: Command) -> None:
    ready = peers_folder() / name
    if ready.is_dir():
        print(f"{name}: in {ready}")
        return
    if shutil.which(tool) is None:
        print(f"{name}: not fetched, because {tool} is not installed")
        return
    unfinished = ready.with_name(f"{name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    given = command(unfinished)
    environment = os.environ | _go(unfinished)
    done = subprocess.run(given, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(unfinished)
        complaint = (done.stderr.strip().splitlines() or ["it did not say why"])[0]
        print(f"{name}: not fetched, {tool} says: {complaint}")
        return
    unfinished.rename(ready)
    print(f"{name}: fetched into {ready}")


def _go(folder: Path) -> Mapping[str, str]:
    """Packages in the peers' directory instead of the user's own."""
    return {"GOMODCACHE": str(folder), "GOFLAGS": "-mod=readonly -modcacherw"}


def _absence(tool: str, name: str) -> str | None:
    if shutil.which(tool) is None:
        return f"{tool} is not installed"
    if not (peers_folder() / name).is_dir():
        return f"{name} is not in {peers_folder()}: run `make peers`"
    return None


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}: {done.stderr}"
    return done.stdout
