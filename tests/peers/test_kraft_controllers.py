"""Kafka's own tools read the files and the quorum of Headwater's KRaft controllers."""

import json
import random
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import STDOUT, Popen
from time import monotonic
from typing import Any

import pytest
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.common.ids import TopicId
from headwater.metadata.changes import apply
from headwater.metadata.cluster_image import FIRST_VERSION, ClusterImage
from headwater.metadata.config_entities import user_resource
from headwater.metadata.metadata_record_serde import (
    ApiMessageAndVersion,
    decode_record,
    encode_record,
)
from headwater.metadata.metadata_records import OLDEST_AND_NEWEST
from headwater.metadata.record_replay import AclIds, RecordReplay
from headwater.network.free_ports import free_ports
from headwater.records.batch_building import build_batch
from headwater.records.batch_header import read_header
from headwater.records.record import Record
from headwater.records.record_reader import read_records
from tests.peers.apache_kafka import CLUSTER_ID as KAFKA_CLUSTER_ID
from tests.peers.apache_kafka import ApacheKafka, java, run_class
from tests.peers.jars import KAFKA_4_1
from tests.peers.lab import Lab
from tests.peers.processes import ask_to_end, end, start_until
from tests.unit.metadata.test_metadata_record_serde import random_record

pytestmark = pytest.mark.peers

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_IDS = ("JEXY6aqzQY-32P5TStzaFg", "MvDxzVmcRsaTz33bUuRU6A", "07R5amHmR32VDA6jHkGbTA")
SCRAM = "SCRAM-SHA-512=[name=alice,iterations=8192,password=alice-secret]"
_PAYLOAD = re.compile(r"payload: (\{.*\})")


def settings_of(folder: Path, number: int, ports: list[int]) -> Path:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    path = folder / f"server-{number}.properties"
    path.write_text(
        f"process.roles=controller\nnode.id={number}\n"
        f"listeners=CONTROLLER://127.0.0.1:{ports[number]}\n"
        "controller.listener.names=CONTROLLER\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT\n"
        f"controller.quorum.bootstrap.servers={servers}\n"
        f"log.dirs={folder / str(number)}\n"
    )
    return path


def format_storage(config: Path, *options: str) -> None:
    arguments = ["storage", "format", "-c", str(config), "-t", CLUSTER_ID, *options]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output


def dump(*paths: Path) -> str:
    files = ",".join(str(each) for each in paths)
    decoder = "--cluster-metadata-decoder"
    return run_class(KAFKA_4_1, "kafka.tools.DumpLogSegments", decoder, "--files", files)


def payloads(text: str) -> list[dict[str, Any]]:
    return [json.loads(each) for each in _PAYLOAD.findall(text)]


def test_kafka_reads_a_directory_that_we_formatted(tmp_path: Path) -> None:
    config = settings_of(tmp_path, 0, free_ports("127.0.0.1", 1))
    format_storage(config, "--standalone", "--add-scram", SCRAM)
    info = run_class(KAFKA_4_1, "kafka.tools.StorageTool", "info", "-c", str(config))
    ours = CliRunner().invoke(app, ["storage", "info", "-c", str(config)]).output
    assert info.strip() == ours.strip()
    bootstrap = dump(tmp_path / "0/bootstrap.checkpoint")
    assert "KRaft bootstrap snapshot" in bootstrap
    records = payloads(bootstrap)
    assert [(each["type"], each["data"].get("featureLevel")) for each in records] == [
        ("FEATURE_LEVEL_RECORD", 27),
        ("FEATURE_LEVEL_RECORD", 1),
        ("FEATURE_LEVEL_RECORD", 1),
        ("FEATURE_LEVEL_RECORD", 2),
        ("USER_SCRAM_CREDENTIAL_RECORD", None),
    ]
    checkpoint = tmp_path / "0/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert '"kRaftVersion":1' in dump(checkpoint)


def test_we_write_the_records_that_kafka_writes_when_it_formats(tmp_path: Path) -> None:
    """Only ids, timestamps and salts differ."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    texts = []
    ports = free_ports("127.0.0.1", 1)
    for folder in (ours, theirs):
        folder.mkdir()
        config = settings_of(folder, 0, ports)
        voters = f"0@127.0.0.1:{ports[0]}:{DIRECTORY_IDS[0]}"
        if folder is ours:
            format_storage(config, "-I", voters)
        else:
            options = ("format", "-c", str(config), "-t", CLUSTER_ID, "-I", voters)
            run_class(KAFKA_4_1, "kafka.tools.StorageTool", *options)
        name = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
        text = dump(folder / "0/bootstrap.checkpoint", folder / "0" / name)
        text = re.sub(r"(CreateTime|crc): \d+|\"lastContainedLogTimestamp\":\d+", "", text)
        texts.append(text.replace(str(folder), ""))
    assert texts[0] == texts[1]


def test_kafkas_decoder_reads_every_record_in_every_version(tmp_path: Path) -> None:
    rand = random.Random(7)
    records = [
        ApiMessageAndVersion(random_record(rand, cls, version), version)
        for cls, (oldest, newest) in OLDEST_AND_NEWEST.items()
        for version in range(oldest, newest + 1)
        for _ in range(5)
    ]
    path = tmp_path / "00000000000000000000.log"
    values = [Record(value=encode_record(each), timestamp=0) for each in records]
    path.write_bytes(build_batch(values, leader_epoch=1))
    found = payloads(dump(path))
    assert len(found) == len(records)
    for record, decoded in zip(records, found, strict=True):
        assert decoded["type"] == _type_name(type(record.message).__name__)
        assert decoded["version"] == record.version
        for name, value in decoded["data"].items():
            assert _comparable(getattr(record.message, _snake(record.message, name))) == (
                _lowered(value)
            ), (record, name)


def _type_name(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def _snake(message: Any, name: str) -> str:
    """Our name of a field of Kafka."""
    (found,) = [each for each in message.__slots__ if each.replace("_", "") == name.lower()]
    return str(found)


def _comparable(value: object) -> object:
    """A field as Kafka's JSON has it, with names in lower case."""
    if isinstance(value, TopicId):
        return str(value)
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, tuple):
        return [_comparable(each) for each in value]
    if hasattr(value, "__slots__"):
        return {
            each.replace("_", ""): _comparable(getattr(value, each)) for each in value.__slots__
        }
    return value


def _lowered(value: object) -> object:
    if isinstance(value, list):
        return [_lowered(each) for each in value]
    if isinstance(value, dict):
        return {name.lower(): _lowered(each) for name, each in value.items()}
    return value


def test_we_read_the_records_that_kafka_writes(tmp_path: Path) -> None:
    config = settings_of(tmp_path, 0, free_ports("127.0.0.1", 1))
    options = ("format", "-c", str(config), "-t", CLUSTER_ID, "-s", "-S", SCRAM)
    run_class(KAFKA_4_1, "kafka.tools.StorageTool", *options)
    content = (tmp_path / "0/bootstrap.checkpoint").read_bytes()
    (values,) = data_batches(content)
    assert len(values) == 5
    for value in values:
        assert encode_record(decode_record(value)) == value


@dataclass
class Controllers:
    ports: list[int]
    processes: list[Popen[str]]
    folder: Path

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)


@pytest.fixture(scope="module")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """Three controllers, each in its own process."""
    folder = tmp_path_factory.mktemp("controllers")
    ports = free_ports("127.0.0.1", 3)
    voters = ",".join(
        f"{number}@127.0.0.1:{ports[number]}:{DIRECTORY_IDS[number]}" for number in range(3)
    )
    processes = []
    try:
        for number in range(3):
            config = settings_of(folder, number, ports)
            format_storage(config, "--initial-controllers", voters)
            command = [sys.executable, "-m", "headwater", "start", "--config", str(config)]
            log = folder / f"{number}.log"
            processes.append(start_until(command, lambda line: "headwater ready" in line, log))
        yield Controllers(ports, processes, folder)
    finally:
        for process in processes:
            end(process)


def quorum(controllers: Controllers, *arguments: str) -> str:
    servers = ("--bootstrap-controller", controllers.bootstrap)
    return run_class(
        KAFKA_4_1, "org.apache.kafka.tools.MetadataQuorumCommand", *servers, *arguments
    )


def test_kafka_describes_our_quorum(controllers: Controllers) -> None:
    text = quorum(controllers, "describe", "--status")
    status = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    status = {name: value.strip() for name, value in status.items()}
    assert status["ClusterId"] == CLUSTER_ID
    assert int(status["LeaderId"]) in (0, 1, 2)
    assert int(status["LeaderEpoch"]) >= 1
    assert int(status["HighWatermark"]) >= 3
    assert json.loads(status["CurrentVoters"]) == [
        {
            "id": number,
            "directoryId": DIRECTORY_IDS[number],
            "endpoints": [f"CONTROLLER://127.0.0.1:{controllers.ports[number]}"],
        }
        for number in range(3)
    ]
    assert json.loads(status["CurrentObservers"]) == []
    rows = [line.split() for line in quorum(controllers, "describe", "--replication").splitlines()]
    header, *replicas = [row for row in rows if row]
    assert header[:2] == ["NodeId", "DirectoryId"]
    assert sorted(row[0] for row in replicas) == ["0", "1", "2"]
    assert sorted(row[-1] for row in replicas) == ["Follower", "Follower", "Leader"]
    assert {row[3] for row in replicas} == {"0"}


def test_an_apache_controller_becomes_an_observer_and_a_voter_of_our_quorum(
    controllers: Controllers, tmp_path: Path
) -> None:
    (port,) = free_ports("127.0.0.1", 1)
    ports = [*controllers.ports, port]
    config = settings_of(tmp_path, 3, ports)
    options = ("format", "-c", str(config), "-t", CLUSTER_ID, "--no-initial-controllers")
    run_class(KAFKA_4_1, "kafka.tools.StorageTool", *options)
    command = [*java(KAFKA_4_1), "kafka.Kafka", str(config)]
    with (tmp_path / "kafka.log").open("w") as output:
        # Its progress shows in what our quorum describes.
        kafka = Popen(command, stdout=output, stderr=STDOUT, text=True)
    try:
        until(lambda: roles(controllers).get("3") == "Observer")
        tool = "org.apache.kafka.tools.MetadataQuorumCommand"
        servers = ("--bootstrap-controller", controllers.bootstrap)
        add = ("--command-config", str(config), "add-controller")
        assert "Added controller 3" in run_class(KAFKA_4_1, tool, *servers, *add)
        until(lambda: roles(controllers).get("3") == "Follower")
        log = tmp_path / "3/__cluster_metadata-0/00000000000000000000.log"
        ours = controllers.folder / "0/__cluster_metadata-0/00000000000000000000.log"
        until(lambda: log.read_bytes() == ours.read_bytes())
        directory = re.search(r"directory.id=(\S+)", (tmp_path / "3/meta.properties").read_text())
        assert directory is not None
        remove = ("--controller-id", "3", "--controller-directory-id", directory[1])
        quorum(controllers, "remove-controller", *remove)
    finally:
        end(kafka)


def roles(controllers: Controllers) -> dict[str, str]:
    rows = quorum(controllers, "describe", "--replication").splitlines()[1:]
    return {row.split()[0]: row.split()[-1] for row in rows if row.strip()}


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does; each try takes a while by itself."""
    deadline = monotonic() + 60
    while not condition():
        assert monotonic() < deadline, "it did not happen within a minute"


def test_we_replicate_and_replay_the_metadata_log_of_apache_kafka(tmp_path: Path) -> None:
    """A Headwater node observes an Apache quorum and has its log, byte by byte."""
    folder = tmp_path / "kafka"
    folder.mkdir()
    with ApacheKafka(folder) as kafka:
        voters = kafka._seat.voters
        (port,) = free_ports("127.0.0.1", 1)
        config = tmp_path / "server.properties"
        config.write_text(
            f"process.roles=controller\nnode.id=77\nlisteners=CONTROLLER://127.0.0.1:{port}\n"
            f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters={voters}\n"
            f"log.dirs={tmp_path / 'ours'}\n"
        )
        arguments = ["storage", "format", "-c", str(config), "-t", KAFKA_CLUSTER_ID]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output
        command = [sys.executable, "-m", "headwater", "start", "--config", str(config)]
        node = start_until(command, lambda line: "headwater ready" in line, tmp_path / "ours.log")
        try:
            lab = Lab("orders", kafka.bootstrap_servers)
            lab.topic()
            lab.client.close()
            entity = ("--entity-type", "users", "--entity-name", "alice")
            servers = ("--bootstrap-server", kafka.bootstrap_servers)
            scram = "SCRAM-SHA-256=[iterations=8192,password=secret]"
            for added in (scram, "producer_byte_rate=1024"):
                change = ("--alter", *entity, "--add-config", added)
                run_class(KAFKA_4_1, "kafka.admin.ConfigCommand", *servers, *change)
            name = "__cluster_metadata-0/00000000000000000000.log"
            theirs, ours = kafka.data / name, tmp_path / "ours" / name
            until(lambda: ours.exists() and b"producer_byte_rate" in ours.read_bytes())
        finally:
            ask_to_end(node, 60)
    content = ours.read_bytes()
    assert len(content) > 1_000
    assert theirs.read_bytes().startswith(content)
    image = image_of(content)
    assert [each for each in image.topics if each.startswith("orders")]
    assert image.features["metadata.version"] == 27
    assert len(image.brokers) == 1
    values = image.configs[user_resource("alice")]
    assert values["producer_byte_rate"] == "1024"
    assert "iterations=8192" in values["SCRAM-SHA-256"]


def image_of(content: bytes) -> ClusterImage:
    """Replay a metadata log; each record is also written as Kafka wrote it."""
    image = ClusterImage(cluster_id="kafka")
    replay = RecordReplay(AclIds())
    for batch in data_batches(content):
        records = [decode_record(value) for value in batch]
        assert [encode_record(each) for each in records] == batch
        changes = replay.replay([each.message for each in records], image)
        image = apply(image, changes, FIRST_VERSION)
    return image


def data_batches(content: bytes) -> Iterator[list[bytes]]:
    """The values of the records of each batch that is not a control batch."""
    position = 0
    while position < len(content):
        header = read_header(content, position)
        if not header.is_control:
            records = read_records(content, header, position)
            yield [each.value for each in records if each.value is not None]
        position += header.size_bytes


def test_kafka_removes_one_of_our_voters(controllers: Controllers) -> None:
    quorum(
        controllers,
        "remove-controller",
        "--controller-id",
        "2",
        "--controller-directory-id",
        DIRECTORY_IDS[2],
    )
    found = roles(controllers)
    assert found["2"] == "Observer"
    assert sorted(found[each] for each in ("0", "1")) == ["Follower", "Leader"]


def test_kafka_reads_the_log_of_a_stopped_controller(controllers: Controllers) -> None:
    ask_to_end(controllers.processes[2], 60)
    directory = controllers.folder / "2/__cluster_metadata-0"
    text = dump(directory / "00000000000000000000.log")
    assert "LeaderChange" in text
    assert "KRaftVoters" in text
    assert "isvalid: true" in text
