"""What it takes to run a ZooKeeper server here: a Java machine and the server's jars.

The jars come with pyspark, of which nothing is imported for that. What a reader would get wrong:
the version of a Java machine is read from a file beside it, because asking it costs a start of it.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from headwater.common.exceptions import ServerUnavailable

JARS_VARIABLE: Final = "HEADWATER_ZOOKEEPER_JARS"
OLDEST_JAVA: Final = 17
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# Of the hundreds that pyspark has. Fewer jars make a quicker start.
_NEEDED: Final = (
    "log4j-api-",
    "log4j-core-",
    "log4j-slf4j2-impl-",
    "metrics-core-",
    "netty-",
    "slf4j-api-",
    "snappy-java-",
    "zookeeper-",
)
_JAVA_HINT: Final = "install a Java 17 runtime, or set JAVA_HOME to one"


def find_java() -> str:
    """The program, or `ServerUnavailable` with what to do."""
    home = os.environ.get("JAVA_HOME")
    candidate = str(Path(home) / "bin/java") if home else "java"
    java = shutil.which(candidate)
    if java is None:
        where = f"JAVA_HOME is {home}, and has no bin/java" if home else "there is no Java here"
        raise ServerUnavailable(f"ZooKeeper runs on Java, and {where}; {_JAVA_HINT}")
    version = _written_version(java) or _asked_version(java)
    if version is None:
        raise ServerUnavailable(f"{java} does not say which version it is; {_JAVA_HINT}")
    if version < OLDEST_JAVA:
        raise ServerUnavailable(f"{java} is Java {version}, and too old; {_JAVA_HINT}")
    return java


def find_class_path() -> str:
    """The server's jars, or `ServerUnavailable` with what to do."""
    named = os.environ.get(JARS_VARIABLE)
    if named:
        folder = Path(named)
        if not any(folder.glob("zookeeper-*.jar")):
            raise ServerUnavailable(f"{JARS_VARIABLE} is {named}, which has no zookeeper-*.jar")
        return f"{folder}/*"
    found = importlib.util.find_spec("pyspark")
    places = [] if found is None else found.submodule_search_locations or []
    for place in places:
        jars = sorted((Path(place) / "jars").glob("*.jar"))
        chosen = [str(jar) for jar in jars if jar.name.startswith(_NEEDED)]
        if any("zookeeper-" in jar for jar in chosen):
            return os.pathsep.join(chosen)
    raise ServerUnavailable(
        "the ZooKeeper server comes with pyspark, which is not installed: "
        f"pip install 'headwater[cluster]', or set {JARS_VARIABLE} to a folder with its jars"
    )


def _written_version(java: str) -> int | None:
    release = Path(java).resolve().parent.parent / "release"
    try:
        return _major(release.read_text(encoding="utf-8", errors="replace"), "JAVA_VERSION=")
    except OSError:
        return None


def _asked_version(java: str) -> int | None:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    return _major(said.stderr + said.stdout, "version ")


def _major(text: str, before: str) -> int | None:
    """The first number that counts: 1.8 is 8."""
    match = re.search(re.escape(before) + r'"(?:1\.)?(\d+)', text)
    return None if match is None else int(match[1])
