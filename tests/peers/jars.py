"""The peers that judge Headwater, and the folder where their jars are kept.

`python -m tests.peers.jars` (that is `make peers`) fetches them with Maven, and with the argument
`lake` those of `make test-lake` only; nothing of them is ever committed. The folder is
`~/.cache/headwater/peers`, or what HEADWATER_PEERS names. A folder of a peer is there whole or not
at all: Maven fills one beside it, which is then renamed.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

_FOLDER_VARIABLE = "HEADWATER_PEERS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A set of jars that run together. Artifacts are `group:name:version`."""

    name: str
    artifacts: tuple[str, ...]
    # What is taken where these cannot be had.
    instead: tuple[str, ...] = ()
    # Without what the artifacts depend on: the rest is there already.
    is_alone: bool = False

    @property
    def jars(self) -> Path:
        return peers_folder() / self.name

    @property
    def class_path(self) -> str:
        return f"{self.jars}/*"

    def absence(self) -> str | None:
        """Why this peer is not available, or None if it is."""
        if shutil.which("java") is None:
            return "Java is not installed"
        if not self.jars.is_dir():
            return f"{self.name} is not in {peers_folder()}: run `make peers`"
        return None


KAFKA_4_1 = Peer(
    name="kafka-4.1",
    artifacts=(
        "org.apache.kafka:kafka_2.13:4.1.1",
        "org.apache.kafka:kafka-tools:4.1.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
KAFKA_3_9 = Peer(
    name="kafka-3.9",
    artifacts=(
        "org.apache.kafka:kafka_2.13:3.9.1",
        "org.apache.kafka:kafka-tools:3.9.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)


def spark_connector() -> Peer:
    """Spark's own Kafka connector, for the pyspark in use; the other jars come with pyspark.

    Where that version is not published whole, the newest one that is known to run on it.
    """
    version = metadata.version("pyspark")
    ours = "org.apache.spark:spark-{}-kafka-0-10_2.13:{}"
    others = ("org.apache.kafka:kafka-clients:3.9.2", "org.apache.commons:commons-pool2:2.13.1")
    return Peer(
        name=f"spark-kafka-{version}",
        artifacts=(ours.format("sql", version), ours.format("token-provider", version), *others),
        instead=(
            ours.format("sql", "4.2.0"),
            ours.format("token-provider", "4.1.0-preview1"),
            *others,
        ),
        is_alone=True,
    )


KAFKA_STREAMS = Peer(
    name="kafka-streams-4.1",
    artifacts=("org.apache.kafka:kafka-streams:4.1.1", "org.slf4j:slf4j-simple:1.7.36"),
)
# Workers of Connect, the source that reads a file, and MirrorMaker 2.
KAFKA_CONNECT = Peer(
    name="kafka-connect-4.1",
    artifacts=(
        "org.apache.kafka:connect-runtime:4.1.1",
        "org.apache.kafka:connect-file:4.1.1",
        "org.apache.kafka:connect-mirror:4.1.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
# Debezium's PostgreSQL connector with the worker of Connect that runs it.
DEBEZIUM = Peer(
    name="debezium-3.3",
    artifacts=(
        "io.debezium:debezium-connector-postgres:3.3.1.Final",
        "org.apache.kafka:connect-runtime:4.1.1",
        "org.slf4j:slf4j-simple:1.7.36",
    ),
)
# For `make test-lake`, on PySpark 4.2; the other jars come with pyspark.
DELTA = Peer(
    name="delta-4.4",
    artifacts=(
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
        "io.unitycatalog:unitycatalog-client:0.6.0",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0",
    ),
    is_alone=True,
)
# Hadoop's S3 file system with Amazon's SDK, which is large.
HADOOP_AWS = Peer(name="hadoop-aws-3.5", artifacts=("org.apache.hadoop:hadoop-aws:3.5.0",))
LAKE = (DELTA, HADOOP_AWS)
PEERS = (KAFKA_4_1, KAFKA_3_9, KAFKA_STREAMS, KAFKA_CONNECT, DEBEZIUM, spark_connector())


def peers_folder() -> Path:
    named = os.environ.get(_FOLDER_VARIABLE)
    return Path(named) if named else Path.home() / ".cache/headwater/peers"


def fetch(peer: Peer) -> str | None:
    """Download a peer's jars; return an error in one line."""
    peer.jars.parent.mkdir(parents=True, exist_ok=True)
    unfinished = peer.jars.with_name(f"{peer.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    project = unfinished / "pom.xml"
    project.write_text(_project(peer), encoding="utf-8")
    goal = "dependency:copy-dependencies"
    command = ["mvn", "-q", "-B", "-U", "-f", str(project), goal]
    command.append(f"-DoutputDirectory={unfinished}")
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        shutil.rmtree(unfinished)
        complaints = re.findall(r"\[ERROR\] (.*)", re.sub(r"\x1b\[[0-9;]*m", "", done.stdout))
        return complaints[0] if complaints else f"mvn ended with {done.returncode}"
    unfinished.rename(peer.jars)
    return None


def _project(peer: Peer) -> str:
    """A minimal Maven project that depends on the peer's artifacts."""
    left_out = (
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
        "</exclusions>"
    )
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "{}</dependency>".format(*artifact.split(":"), left_out if peer.is_alone else "")
        for artifact in peer.artifacts
    )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>peers</groupId>"
        f"<artifactId>{peer.name}</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>\n"
    )


def main() -> int:
    if shutil.which("mvn") is None:
        print("make peers needs Maven (mvn), which is not installed", file=sys.stderr)
        return 1
    only_lake = sys.argv[1:] == ["lake"]
    for peer in LAKE if only_lake else (*PEERS, *LAKE):
        if peer.jars.is_dir():
            print(f"{peer.name}: in {peer.jars}")
            continue
        failure = fetch(peer)
        if failure is not None and peer.instead:
            print(f"{peer.name} is not there whole, so: {' '.join(peer.instead)}")
            failure = fetch(replace(peer, artifacts=peer.instead))
        if failure is not None:
            print(
                f"{peer.name} could not be fetched from Maven Central: {failure}", file=sys.stderr
            )
            return 1
        print(f"{peer.name}: fetched into {peer.jars}")
    if only_lake:
        return 0
    # It asks this module where the peers' folder is.
    from tests.peers.packages import fetch_packages

    fetch_packages()
    kcat = shutil.which("kcat")
    print(f"kcat: {kcat or 'not installed; Debian has it as the package kcat'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
