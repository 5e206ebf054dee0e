"""Find the Java runtime for Spark and ZooKeeper.

Searched in `JAVA_HOME`, on the `PATH`, and in the usual directories of Linux and macOS. Checking
the version here gives a one-line error instead of Spark's page of exceptions.

Note: the version is read from the `release` file of the runtime, because running `java -version`
starts a JVM.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headwater.common.exceptions import ServerUnavailable

OLDEST: Final = 17

_USUAL_PLACES: Final = (
    "/usr/lib/jvm",
    "/usr/java",
    "/opt/java",
    "/opt/jdk",
    "/Library/Java/JavaVirtualMachines",
)
# 1.8 is Java 8.
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_RELEASE_VERSION: Final = re.compile(r'JAVA_VERSION="(?:1\.)?(\d+)')
_HOME: Final = re.compile(r"java\.home = (.+)")
_TIMEOUT_S: Final = 30


class NoJava(ServerUnavailable):
    """There is no suitable Java runtime."""


class Java(NamedTuple):
    """Java runtime and its major version."""

    home: Path
    version: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(
    environment: Mapping[str, str],
    places: Iterable[str] = _USUAL_PLACES,
    *,
    needed_by: str = "Spark",
) -> Java:
    """Return the first Java that is new enough; `NoJava` lists what was found instead."""
    too_old = []
    for home in _homes(environment, places):
        version = version_of(home / "bin" / "java")
        if version is None:
            continue
        if version >= OLDEST:
            return Java(home, version)
        too_old.append(f"Java {version} in {home}")
    found = f"found only {', '.join(too_old)}" if too_old else "found none"
    raise NoJava(
        f"{needed_by} needs Java {OLDEST} or newer and {found}; install one "
        "(Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def version_of(program: Path) -> int | None:
    """Return the major version of a Java program; None if it does not run."""
    if not os.access(program, os.X_OK):
        return None
    try:
        release = (program.resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        release = ""
    found = _RELEASE_VERSION.search(release) or _VERSION.search(_output(program, "-version"))
    return int(found[1]) if found is not None else None


def _homes(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if java_home := environment.get("JAVA_HOME"):
        yield Path(java_home)
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield _home_of(Path(on_path))
    for place in map(Path, places):
        if place.is_dir():
            for folder in sorted(place.iterdir(), reverse=True):
                yield folder
                yield folder / "Contents" / "Home"


def _home_of(program: Path) -> Path:
    """Return the home of a `java` on the PATH, maybe a link or a wrapper script."""
    resolved = program.resolve()
    if resolved.parent.name == "bin":
        return resolved.parent.parent
    home = _HOME.search(_output(program, "-XshowSettings:properties", "-version"))
    return resolved.parent.parent if home is None else Path(home[1].strip())


def _output(program: Path, *options: str) -> str:
    try:
        result = subprocess.run(
            [program, *options], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stderr + result.stdout
