"""Three controllers in one process, on real sockets and disks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from headwater.broker.controller_server.controller_server import (
    ControllerConfig,
    ControllerServer,
)
from headwater.common.exceptions import (
    ControllerFenced,
    InvalidSetting,
    StorageError,
    WrongLogDirectory,
)
from headwater.common.settings.quorum_settings import parse_quorum_settings
from headwater.common.settings.server_properties import controller_properties
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import Version
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata_store.raft.metadata_version import feature_levels
from headwater.metadata_store.raft.storage_formatter import (
    FormatRequest,
    InitialController,
    format_storage,
    random_uuid,
)
from headwater.network.event_loop import new_loop
from headwater.network.free_ports import free_ports
from headwater.network.system_clock import SystemRandom
from headwater.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    PartitionResult,
    TopicData,
)
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import LeaderAndEpoch
from headwater.storage.io.os_disk import OsDisk

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
DEADLINE_S = 60


@dataclass
class Quorum:
    """Directories and settings of three controllers."""

    folder: Path
    ports: list[int]

    def texts(self, number: int) -> dict[str, str]:
        servers = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        return {
            "process.roles": "controller",
            "node.id": str(number),
            "listeners": f"CONTROLLER://127.0.0.1:{self.ports[number]}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": servers,
            "controller.quorum.election.timeout.ms": "300",
            "controller.quorum.fetch.timeout.ms": "1000",
            "log.dirs": str(self.folder / str(number)),
        }

    def format(self) -> None:
        controllers = tuple(
            InitialController(
                node_id=number,
                host="127.0.0.1",
                port=port,
                directory_id=random_uuid(SystemRandom()),
            )
            for number, port in enumerate(self.ports)
        )
        for number in range(len(self.ports)):
            directory = self.folder / str(number)
            format_storage(
                FormatRequest(
                    node_id=number,
                    cluster_id=CLUSTER_ID,
                    directories=(directory,),
                    metadata_directory=directory,
                    features=feature_levels(None, {}),
                    controller_listener="CONTROLLER",
                    initial_controllers=controllers,
                ),
                disk=OsDisk(),
                random=SystemRandom(),
                now_ms=0,
            )

    def server(self, number: int, **changes: str) -> ControllerServer:
        texts = {**self.texts(number), **{k.replace("_", "."): v for k, v in changes.items()}}
        config = ControllerConfig(
            StaticConfig.parse(controller_properties(texts).texts), parse_quorum_settings(texts)
        )
        return ControllerServer(config, broken=_raise)


def _raise(reason: str) -> None:
    raise AssertionError(reason)


def quorum_of(folder: Path, count: int) -> Quorum:
    return Quorum(folder, free_ports("127.0.0.1", count))


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def within_deadline() -> None:
        await asyncio.wait_for(story(), DEADLINE_S)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(within_deadline())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def leader_of(servers: list[ControllerServer]) -> ControllerServer | None:
    leaders = [each for each in servers if each.raft.client.is_leader]
    return max(leaders, key=lambda each: each.leader.epoch, default=None)


async def write(leader: ControllerServer, *changes: MetadataChange) -> None:
    """Let the active controller write changes and wait until they are committed."""
    outcomes: list[object] = []
    leader.services.controller.submit(
        lambda _: ControllerResult(changes, "written"),
        then=outcomes.append,
        on_error=outcomes.append,
    )
    await until(lambda: bool(outcomes))
    assert outcomes == ["written"]


def has_feature(server: ControllerServer, name: str) -> bool:
    return name in server.loader.image.features


def test_three_controllers_elect_a_leader_replicate_and_fail_over(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 3)
    quorum.format()

    async def story() -> None:
        servers = [quorum.server(number) for number in range(3)]
        for each in servers:
            await each.start()
        await until(lambda: (leader := leader_of(servers)) is not None and _is_announced(leader))
        leader = leader_of(servers)
        assert leader is not None
        await write(leader, FeatureFinalized("first", 1))
        await until(lambda: all(has_feature(each, "first") for each in servers))
        described = await describe(leader)
        assert described.leader_id == leader.raft.client.leader_and_epoch.leader_id
        assert [each.replica_id for each in described.current_voters] == [0, 1, 2]
        assert described.observers == ()
        # The leader stops: the others go on, and the restarted one catches up.
        number = servers.index(leader)
        await leader.stop()
        others = [each for each in servers if each is not leader]
        await until(lambda: (found := leader_of(others)) is not None and _is_announced(found))
        successor = leader_of(others)
        assert successor is not None
        assert successor.leader.epoch > described.leader_epoch
        await write(successor, FeatureFinalized("second", 1))
        again = quorum.server(number)
        await again.start()
        await until(lambda: has_feature(again, "second") and has_feature(again, "first"))
        running = (*others, again)
        # All have registered, and nothing else is written.
        await until(lambda: sorted(again.loader.image.controllers) == [0, 1, 2])
        await until(lambda: len({each.raft.log.end_offset for each in running}) == 1)
        for each in (*others, again):
            await each.stop()

    run(story)


def _is_leader(server: ControllerServer) -> bool:
    return server.raft.client.is_leader and _is_announced(server)


def _is_announced(server: ControllerServer) -> bool:
    return server.leader.leader_id == server.raft.client.leader_and_epoch.leader_id


async def describe(server: ControllerServer) -> PartitionResult:
    answers: list[Message] = []
    topic = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(),))
    server.raft.receive(DescribeQuorumRequest(topics=(topic,)), answers.append)
    await until(lambda: bool(answers))
    (response,) = answers
    assert isinstance(response, DescribeQuorumResponse)
    return response.topics[0].partitions[0]


def test_a_lone_controller_finds_its_records_again(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()

    async def story() -> None:
        epoch = 0
        expected = dict(feature_levels(None, {}))
        for life in range(3):
            server = quorum.server(0)
            await server.start()
            await until(partial(_is_leader, server))
            await until(partial(has_feature, server, "metadata.version"))
            assert server.leader.epoch > epoch
            epoch = server.leader.epoch
            assert dict(server.loader.image.features) == expected
            await write(server, FeatureFinalized(f"life {life}", 1))
            expected[f"life {life}"] = 1
            await server.stop()
        content = (tmp_path / "0/__cluster_metadata-0/00000000000000000000.log").read_bytes()
        assert content.count(b"Bootstrap records") == 1

    run(story)


def test_snapshots_replace_the_log_and_a_start_loads_them(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()
    often = {
        "metadata_log_max_record_bytes_between_snapshots": "1",
        "metadata_max_retention_bytes": "0",
        "metadata_log_segment_bytes": "300",
    }
    directory = tmp_path / "0/__cluster_metadata-0"

    async def story() -> None:
        server = quorum.server(0, **often)
        await server.start()
        await until(partial(_is_leader, server))
        for number in range(5):
            await write(server, FeatureFinalized(f"feature {number}", 1))
        before = dict(server.loader.image.features)
        await server.stop()
        (checkpoint,) = directory.glob("*.checkpoint")
        assert checkpoint.name > "00000000000000000005"
        assert b"feature 0" not in b"".join(each.read_bytes() for each in directory.glob("*.log"))
        again = quorum.server(0)
        await again.start()
        await until(partial(_is_leader, again))
        assert dict(again.loader.image.features) == before
        await again.stop()

    run(story)


def test_writes_are_fenced_by_version_and_fail_with_the_leadership(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()

    async def story() -> None:
        server = quorum.server(0)
        await server.start()
        await until(partial(_is_leader, server))
        # Only this test writes.
        server.services.quorum_controller = None
        fence = server.writer.version
        assert fence is not None
        outcomes: list[object] = []

        def submit(version: Version) -> None:
            server.writer.write(
                [FeatureFinalized("a", 1)],
                fence=version,
                then=outcomes.append,
                on_error=lambda error: outcomes.append(type(error)),
            )

        # The second is decided on the first, which is not committed yet.
        submit(fence)
        submit(fence._replace(sequence=1))
        submit(fence)
        assert outcomes == [ControllerFenced]
        await until(lambda: len(outcomes) == 3)
        assert outcomes[1:] == [fence._replace(sequence=1), fence._replace(sequence=2)]
        submit(fence._replace(sequence=2))
        server.writer.leader_changed(LeaderAndEpoch(None, fence.controller_epoch))
        assert outcomes[3:] == [ControllerFenced]
        submit(fence._replace(sequence=3))
        assert outcomes[4:] == [ControllerFenced]
        assert server.writer.version is None
        await server.stop()

    run(story)


def test_a_directory_that_is_not_formatted_is_refused(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)

    async def story() -> None:
        with pytest.raises(StorageError, match="headwater storage format"):
            await quorum.server(0).start()
        quorum.format()
        other = quorum.server(0, node_id="7")
        with pytest.raises(WrongLogDirectory, match="belongs to node 0"):
            await other.start()

    run(story)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        (
            {
                "controller_listener_names": "OTHER",
                "listener_security_protocol_map": "CONTROLLER:PLAINTEXT",
            },
            "not in controller.listener.names",
        ),
        ({"listener_security_protocol_map": "CONTROLLER:SASL_PLAINTEXT"}, "SASL"),
    ],
)
def test_listeners_of_a_controller_are_checked(
    tmp_path: Path, changes: dict[str, str], complaint: str
) -> None:
    quorum = quorum_of(tmp_path, 1)

    async def story() -> None:
        with pytest.raises(InvalidSetting, match=complaint):
            quorum.server(0, **changes)

    run(story)
