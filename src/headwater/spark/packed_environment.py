"""Pack Headwater and the packages it requires into an archive for executors.

Executors that have Python but not the package unpack it: `spark.archives=FILE#headwater`. The
archive holds what is installed here, compiled modules included:

    bin/headwater-python       starts Python with lib/ on its path
    lib/                       the packages
    headwater-package.json     versions, for information

It holds neither Python itself nor pyspark, which the executors' Spark brings. So executors need the
Python version of the driver, on the same kind of machine.
"""

import io
import json
import platform
import re
import sys
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from headwater import __version__
from headwater.common.exceptions import HeadwaterError
from headwater.spark.installation import PACKAGE
from headwater.spark.worker_python import SCRIPT

_EXTRAS: Final = frozenset({"spark", "connect", "avro", "json", "protobuf", "tls", "oauth"})
# Spark has its own pyspark; the others only install packages.
_LEFT_OUT: Final = frozenset({"pyspark", "py4j", "pip", "setuptools", "wheel"})
_OURS: Final = "headwater"
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?([^;]*)(?:;(.*))?")
_EXTRA: Final = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_SKIPPED_FOLDERS: Final = frozenset({"tests", "include", "__pycache__"})
# Low: packing is limited by the compressor.
_COMPRESSION: Final = 1

_STARTER: Final = """#!/bin/sh
# Starts the executor's Python with the packages of this archive.
here=$(cd "$(dirname "$0")/.." && pwd) || exit 1
PYTHONPATH=$here/lib${{PYTHONPATH:+:$PYTHONPATH}}
export PYTHONPATH
exec "${{HEADWATER_PYTHON:-python{version}}}" "$@"
"""


class UnknownPackage(HeadwaterError):
    """A package to be packed is not installed."""


def pack_environment(target: Path, extra_packages: Iterable[str] = ()) -> list[str]:
    """Write the archive; return the names and versions of its packages."""
    chosen = required_distributions(_OURS, _EXTRAS)
    for name in extra_packages:
        chosen |= required_distributions(name, frozenset())
    names = [f"{each.name} {each.version}" for _, each in sorted(chosen.items())]
    described = {
        "headwater": __version__,
        "python": _python_version(),
        "machine": platform.machine(),
        "packages": names,
    }
    draft = target.with_name(f".{target.name}.draft")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=_COMPRESSION) as archive:
            _add_text(archive, "headwater-package.json", json.dumps(described, indent=1), 0o644)
            _add_text(archive, f"bin/{SCRIPT}", _STARTER.format(version=_python_version()), 0o755)
            for path, name in _files(chosen.values()):
                archive.add(path, f"lib/{name}", recursive=False)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return names


def required_distributions(name: str, extras: frozenset[str]) -> dict[str, Distribution]:
    """Return a distribution and its installed requirements, by normalized name."""
    found: dict[str, Distribution] = {}
    waiting = [(name, extras)]
    while waiting:
        wanted, chosen = waiting.pop()
        key = normalized(wanted)
        if key in _LEFT_OUT or (key in found and not chosen):
            continue
        try:
            found[key] = distribution(wanted)
        except PackageNotFoundError:
            if wanted == name:
                raise UnknownPackage(f"the package {name} is not installed here") from None
            # An optional one, or one for other systems.
            continue
        waiting += requirements(found[key].requires or (), chosen)
    return found


def requirements(lines: Iterable[str], extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """Return the names and extras of `Requires-Dist` lines for the given extras."""
    found = []
    for line in lines:
        parsed = _REQUIREMENT.match(line)
        assert parsed is not None, line
        wanted_by = _EXTRA.findall(parsed[4] or "")
        if not wanted_by or extras.intersection(wanted_by):
            inner = frozenset(each.strip() for each in (parsed[2] or "").split(",") if each.strip())
            found.append((parsed[1], inner))
    return found


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(chosen: Iterable[Distribution]) -> Iterator[tuple[Path, str]]:
    for each in chosen:
        if normalized(each.name) == _OURS:
            # An editable install lists no files of its package.
            for package in (PACKAGE, PACKAGE.parent / "pyspark_headwater"):
                for path in sorted(package.rglob("*")):
                    if path.is_file() and not _SKIPPED_FOLDERS.intersection(path.parts):
                        yield path, str(path.relative_to(package.parent))
        for file in each.files or ():
            # Scripts and the like are outside of the folder of packages.
            is_inside = not file.is_absolute() and ".." not in file.parts
            if is_inside and not _SKIPPED_FOLDERS.intersection(file.parts):
                path = Path(str(file.locate()))
                if path.is_file() and path.suffix != ".pth":
                    yield path, str(file)


def _add_text(archive: tarfile.TarFile, name: str, text: str, mode: int) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"
