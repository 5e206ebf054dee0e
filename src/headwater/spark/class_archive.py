"""An archive of Spark's classes for faster starts of Java (class data sharing).

Much of Spark's start is Java unpacking and verifying some twenty thousand classes. A JVM that ends
with `writing_option` writes them to an archive; one that starts with `reading_option` takes two
thirds of the time. `make_archive` runs a session for that purpose.

Note: Java trusts the file, and an incomplete one ends the JVM with a bus error. So an archive gets
its name when it is complete, and the name contains its size. The name also identifies the Java
version and the jars; Java ignores an archive for another class path.
"""

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.common.exceptions import HeadwaterError
from headwater.process.java import Java

_SESSION: Final = "headwater.spark.archive_session"
_TIMEOUT_S: Final = 900

_NAME: Final = re.compile(r"spark-[0-9a-f]{16}-(\d+)\.jsa")
# Otherwise Java prints a warning that the archive is not used.
_QUIETLY: Final = "-Xlog:cds*=off"


class NotPrepared(HeadwaterError):
    """Java has not written an archive."""


def archive_folder(environment: Mapping[str, str]) -> Path:
    cache = environment.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "headwater" / "spark"


def jars_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the Spark that will be started."""
    if home := environment.get("SPARK_HOME"):
        return Path(home) / "jars"
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def fingerprint(java: Java, jars: Path) -> str:
    """Return a hash of the Java version and the jars."""
    release = java.home / "release"
    parts = [str(java.home), release.read_text(encoding="utf-8") if release.exists() else ""]
    parts += [f"{each.name} {each.stat().st_size}" for each in sorted(jars.glob("*.jar"))]
    return hashlib.sha256("\n".join([str(jars), *parts]).encode()).hexdigest()[:16]


def find_archive(folder: Path, mark: str) -> Path | None:
    """Return the archive with this fingerprint, if it exists and is complete."""
    for path in sorted(folder.glob(f"spark-{mark}-*.jsa")):
        found = _NAME.fullmatch(path.name)
        if found is not None and path.stat().st_size == int(found[1]):
            return path
    return None


def adopt_archive(written: Path, folder: Path, mark: str) -> Path:
    """Rename an archive that Java has written; remove those of other versions."""
    with written.open("rb") as file:
        os.fsync(file.fileno())
    target = folder / f"spark-{mark}-{written.stat().st_size}.jsa"
    for old in folder.glob("spark-*.jsa"):
        old.unlink(missing_ok=True)
    written.rename(target)
    return target


def writing_option(path: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={path} {_QUIETLY}"


def reading_option(java: Java, environment: Mapping[str, str]) -> str | None:
    """Return Java's option for the archive; None if there is no matching archive."""
    folder = archive_folder(environment)
    if not folder.is_dir():
        return None
    path = find_archive(folder, fingerprint(java, jars_folder(environment)))
    # A path with a space would be split into two options.
    if path is None or " " in str(path):
        return None
    return f"-XX:SharedArchiveFile={path} {_QUIETLY}"


def make_archive(java: Java, environment: Mapping[str, str]) -> Path:
    """Start, use and end Spark in its own process; takes half a minute or more."""
    folder = archive_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    mark = fingerprint(java, jars_folder(environment))
    with tempfile.TemporaryDirectory(prefix="writing-", dir=folder) as place:
        written = Path(place) / "classes.jsa"
        try:
            ended = subprocess.run(
                [sys.executable, "-P", "-m", _SESSION, str(written)],
                env={**environment, "JAVA_HOME": str(java.home)},
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise NotPrepared(f"Spark has not ended within {_TIMEOUT_S} s") from error
        if ended.returncode or not written.exists():
            lines = ended.stderr.strip().splitlines() or ["Java has written nothing"]
            raise NotPrepared(f"Spark's classes could not be archived: {lines[-1]}")
        return adopt_archive(written, folder, mark)
