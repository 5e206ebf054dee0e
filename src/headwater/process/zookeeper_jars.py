"""Find the jars of the ZooKeeper server.

They are part of pyspark, which is not imported for that.
"""

import importlib.util
import os
from pathlib import Path
from typing import Final

from headwater.common.exceptions import ServerUnavailable

JARS_VARIABLE: Final = "HEADWATER_ZOOKEEPER_JARS"
MAIN_CLASS: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

# Of the hundreds of jars in pyspark. Fewer jars make a faster start.
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


def find_class_path() -> str:
    """Return the server's class path, or raise `ServerUnavailable` with what to do."""
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
        "the ZooKeeper server is part of pyspark, which is not installed: "
        f"pip install 'headwater[cluster]', or set {JARS_VARIABLE} to a directory with its jars"
    )
