"""Finding the Java that Spark needs, before Spark does so with a page of exceptions.

Looked for in `JAVA_HOME`, on the `PATH`, and where Linux distributions and macOS put it.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from headwater.common.exceptions import HeadwaterError

OLDEST: Final = 17

_USUAL_PLACES: Final = (
    "/usr/lib/jvm",
    "/usr/java",
    "/opt/java",
    "/opt/jdk",
    "/Library/Java/JavaVirtualMachines",
)
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE_S: Final = 30


class NoJava(HeadwaterError):
    """There is no Java that Spark could run on."""


class Java(NamedTuple):
    """A Java that was asked which one it is."""

    home: Path
    version: int


def find_java(environment: Mapping[str, str], places: Iterable[str] = _USUAL_PLACES) -> Java:
    """The first Java that is new enough. `NoJava` says what was found instead."""
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
        f"Spark needs Java {OLDEST} or newer and {found}; install one "
        "(Debian, Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME"
    )


def version_of(program: Path) -> int | None:
    """Which Java a program is; None if it is none, or does not run."""
    try:
        told = subprocess.run(
            [program, "-version"],
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(told.stderr)
    return int(found[1]) if found is not None else None


def _homes(environment: Mapping[str, str], places: Iterable[str]) -> Iterator[Path]:
    if named := environment.get("JAVA_HOME"):
        yield Path(named)
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        # The name on the path is a link to a link.
        yield Path(on_path).resolve().parent.parent
    for place in map(Path, places):
        if place.is_dir():
            for folder in sorted(place.iterdir(), reverse=True):
                yield folder
                yield folder / "Contents" / "Home"
