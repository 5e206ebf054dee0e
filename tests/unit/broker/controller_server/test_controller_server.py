"""Three controllers in one process, on real sockets and disks."""

from __future__ import annotations

import asyncio
import shutil
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from headwater.broker.controller_server.controller_server import (
    ControllerConfig,
    ControllerServer,
)
from headwater.broker.metrics.prometheus_exposition import exposition
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import (
    ControllerFenced,
    InvalidSetting,
    StorageError,
    WrongLogDirectory,
)
from headwater.common.principal import Principal, Requester
from headwater.common.settings.quorum_settings import parse_quorum_settings
from headwater.common.settings.server_properties import controller_properties
from headwater.metadata.changes import FeatureFinalized, MetadataChange
from headwater.metadata.cluster_image import Version
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.metadata_record_serde import ApiMessageAndVersion, newest
from headwater.metadata.metadata_records import BeginTransactionRecord, FeatureLevelRecord
from headwater.metadata_store.raft.metadata_loader import RECORDS_PER_BATCH
from headwater.metadata_store.raft.metadata_version import feature_levels
from headwater.metadata_store.raft.quorum_change_writer import QuorumChangeWriter
from headwater.metadata_store.raft.storage_formatter import (
    FormatRequest,
    InitialController,
    format_storage,
    random_uuid,
)
from headwater.network.event_loop import new_loop
from headwater.network.free_ports import free_ports
from headwater.network.system_clock import SystemRandom
from headwater.protocol.messages.add_raft_voter import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
)
from headwater.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    PartitionResult,
    TopicData,
)
from headwater.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from headwater.protocol.older_versions import Message
from headwater.raft.election_state import LeaderAndEpoch
from headwater.records.batch_building import build_batch
from headwater.records.record import Record
from headwater.security.authorization.authorizer import CLUSTER, Operation
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

    def format(self, records: tuple[ApiMessageAndVersion, ...] | None = None) -> None:
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
                    records=records,
                ),
                disk=OsDisk(),
                random=SystemRandom(),
                now_ms=0,
            )

    def format_observer(self, number: int) -> None:
        """Format an empty directory of a node that joins later."""
        directory = self.folder / str(number)
        format_storage(
            FormatRequest(
                node_id=number,
                cluster_id=CLUSTER_ID,
                directories=(directory,),
                metadata_directory=directory,
                features=feature_levels(None, {}),
                controller_listener="CONTROLLER",
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


def test_controllers_register_without_holding_up_their_fetches(tmp_path: Path) -> None:
    """A registration is answered after a commit, for which both followers must fetch."""
    quorum = quorum_of(tmp_path, 3)
    quorum.format()

    async def story() -> None:
        # A fetch that is held up would time out, and its sender would become another leader.
        servers = [
            quorum.server(number, controller_quorum_fetch_timeout_ms=str(DEADLINE_S * 500))
            for number in range(3)
        ]
        for each in servers:
            await each.start()
        await until(lambda: leader_of(servers) is not None)
        leader = leader_of(servers)
        await until(
            lambda: all(sorted(each.loader.image.controllers) == [0, 1, 2] for each in servers)
        )
        assert leader_of(servers) is leader
        for each in servers:
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
        (
            {"listener_security_protocol_map": "CONTROLLER:SASL_PLAINTEXT"},
            "sasl.enabled.mechanisms",
        ),
        (
            {
                "listener_security_protocol_map": "CONTROLLER:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
            },
            "sasl.mechanism.controller.protocol must be one of",
        ),
        (
            {
                "listener_security_protocol_map": "CONTROLLER:SASL_PLAINTEXT",
                "sasl_enabled_mechanisms": "SCRAM-SHA-256",
                "sasl_mechanism_controller_protocol": "SCRAM-SHA-256",
            },
            "no credentials for authentication to controllers",
        ),
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


def metrics_of(server: ControllerServer) -> dict[str, float]:
    """What a scrape of a controller's own metrics port has."""
    families = server._families()
    lines = b"".join(exposition(families)).decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def test_metrics_show_the_quorum_and_its_active_controller(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 3)
    quorum.format()
    prefix, raft = "kafka_controller_kafkacontroller_", "kafka_server_raft_metrics_"

    async def story() -> None:
        servers = [
            quorum.server(number, headwater_metrics_listener="127.0.0.1:0") for number in range(3)
        ]
        for each in servers:
            await each.start()
        await until(lambda: (leader := leader_of(servers)) is not None and _is_announced(leader))
        leader = leader_of(servers)
        assert leader is not None
        await write(leader, FeatureFinalized("first", 1))
        await until(lambda: all(has_feature(each, "first") for each in servers))

        def agree() -> bool:
            """On a busy machine there may be another election."""
            active = [each for each in servers if each.services.is_controller]
            known = {each.raft.client.leader_and_epoch for each in servers}
            ends = {each.loader.end for each in servers}
            registered = [sorted(each.loader.image.controllers) for each in active]
            return len(known) == len(ends) == 1 and registered == [[0, 1, 2]]

        await until(agree)
        leader = next(each for each in servers if each.services.is_controller)
        found = [metrics_of(each) for each in servers]
        number = servers.index(leader)
        active = [scrape[prefix + "activecontrollercount"] for scrape in found]
        assert active == [float(each is leader) for each in servers]
        for index, scrape in enumerate(found):
            role = "leader" if index == number else "follower"
            states = {
                name: value
                for name, value in scrape.items()
                if name.startswith(raft + "current_state")
            }
            assert states.pop(f'{raft}current_state{{state="{role}"}}') == 1
            assert set(states.values()) == {0}
            assert scrape[raft + "current_leader"] == number
            assert scrape[raft + "current_epoch"] == leader.leader.epoch
            assert scrape[raft + "number_of_voters"] == 3
            assert scrape[raft + "log_end_offset"] == leader.loader.end.offset
            assert scrape[prefix + "lastappliedrecordoffset"] == leader.loader.end.offset - 1
            assert scrape[prefix + "lastappliedrecordlagms"] == 0
            assert scrape[prefix + "newactivecontrollerscount_total"] >= 1
            assert scrape[prefix + "fencedbrokercount"] == 0
            if index != number:
                assert scrape[raft + "fetch_records_total"] > 0
        assert found[number][raft + "election_latency_seconds_count"] >= 1
        assert sum(scrape[raft + "append_records_total"] for scrape in found) > 0
        assert sum(scrape[raft + "commit_latency_seconds_count"] for scrape in found) > 0
        for each in servers:
            await each.stop()

    run(story)


def test_port_of_a_controller_serves_its_metrics(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()

    async def story() -> None:
        server = quorum.server(0, headwater_metrics_listener="127.0.0.1:0")
        await server.start()
        await until(partial(_is_leader, server))
        assert server._metrics_port is not None
        address = server._metrics_port.endpoint.address

        def scrape() -> bytes:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=DEADLINE_S) as answer:
                body: bytes = answer.read()
            return body

        body = await asyncio.to_thread(scrape)
        assert b"kafka_controller_kafkacontroller_activecontrollercount 1\n" in body
        await server.stop()

    run(story)


def with_plain(password: str) -> dict[str, str]:
    """Settings of controllers that authenticate as `node` to each other."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="node" password="{password}" user_node="right";'
    )
    return {
        "listener.security.protocol.map": "CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
        # Not in effect before the ACLs are read.
        "allow.everyone.if.no.acl.found": "true",
    }


def test_only_controllers_with_the_password_take_part(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 3)
    quorum.format()

    async def story() -> None:
        servers = [quorum.server(number, **with_plain("right")) for number in range(2)]
        excluded = quorum.server(2, **with_plain("wrong"))
        for each in (*servers, excluded):
            await each.start()
        await until(lambda: (leader := leader_of(servers)) is not None and _is_announced(leader))
        leader = leader_of(servers)
        assert leader is not None
        await write(leader, FeatureFinalized("first", 1))
        await until(lambda: all(has_feature(each, "first") for each in servers))
        (listener,) = leader._logins.values()
        await until(lambda: listener.counters.failed > 0)
        assert not has_feature(excluded, "first")
        for each in (*servers, excluded):
            await each.stop()

    run(story)


def test_before_the_acls_are_read_only_super_users_are_authorized(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()
    requesters = [Requester(Principal("User", each), "127.0.0.1") for each in ("node", "other")]

    def allowed(server: ControllerServer) -> list[bool]:
        authorizer = server.services.authorizer
        return [authorizer.authorize(each, Operation.ALTER, CLUSTER) for each in requesters]

    async def story() -> None:
        server = quorum.server(0, **with_plain("right"))
        await server.start()
        assert not server.loader.has_records
        assert allowed(server) == [True, False]
        await until(lambda: server.loader.has_records)
        assert allowed(server) == [True, True]
        await server.stop()

    run(story)


def test_bootstrap_checkpoint_may_have_a_whole_cluster(tmp_path: Path) -> None:
    """As after a migration from ZooKeeper: more records than fit into a batch."""
    quorum = quorum_of(tmp_path, 1)
    names = [f"feature {number}" for number in range(RECORDS_PER_BATCH + 10)]
    records = [newest(FeatureLevelRecord(name=each, feature_level=1)) for each in names]
    quorum.format(records=tuple(records))

    async def story() -> None:
        for _ in range(2):
            server = quorum.server(0)
            await server.start()
            await until(partial(_is_leader, server))
            await until(partial(has_feature, server, names[-1]))
            assert set(names) <= set(server.loader.image.features)
            await write(server, FeatureFinalized("later", 1))
            await server.stop()

    run(story)


def _is_in_transaction(server: ControllerServer) -> bool:
    return server.loader.is_in_transaction


def _is_outside_of_transactions(server: ControllerServer) -> bool:
    return not server.loader.is_in_transaction


def test_a_transaction_that_its_leader_did_not_end_is_aborted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise all later records would count as parts of it, and be discarded with it."""
    quorum = quorum_of(tmp_path, 1)
    records = [newest(FeatureLevelRecord(name=each, feature_level=1)) for each in ("one", "two")]
    quorum.format(records=tuple(records))
    whole = QuorumChangeWriter._bootstrap_records

    monkeypatch.setattr(QuorumChangeWriter, "_bootstrap_records", lambda self: whole(self)[:-1])

    async def story() -> None:
        broken = quorum.server(0)
        await broken.start()
        await until(partial(_is_in_transaction, broken))
        assert not broken.loader.has_records
        await broken.stop()
        monkeypatch.setattr(QuorumChangeWriter, "_bootstrap_records", whole)
        for _ in range(3):
            server = quorum.server(0)
            await server.start()
            await until(partial(_is_leader, server))
            await until(partial(has_feature, server, "two"))
            await until(partial(_is_outside_of_transactions, server))
            assert not has_feature(server, "part")
            await write(server, FeatureFinalized("later", 1))
            assert has_feature(server, "later")
            begin, part = BeginTransactionRecord(), FeatureLevelRecord(name="part", feature_level=1)
            server.writer._append([newest(begin), newest(part)], None, is_transaction=True)
            await until(partial(_is_in_transaction, server))
            await server.stop()

    run(story)


def test_acls_of_a_snapshot_alone_are_not_used(tmp_path: Path) -> None:
    """The log after it may have others, and what is committed of it is unknown."""
    quorum = quorum_of(tmp_path, 3)
    quorum.format()

    def servers() -> list[ControllerServer]:
        return [quorum.server(number, **with_plain("right")) for number in range(3)]

    async def story() -> None:
        first = servers()
        for each in first:
            await each.start()
        await until(lambda: (leader := leader_of(first)) is not None and _is_announced(leader))
        await until(lambda: all(not each.services.is_early_start for each in first))
        leader = leader_of(first)
        assert leader is not None
        await write(leader, FeatureFinalized("first", 1))
        await until(lambda: all(has_feature(each, "first") for each in first))
        for each in first:
            assert each.loader.snapshot() is not None
        await write(leader, FeatureFinalized("second", 1))
        await until(lambda: all(has_feature(each, "second") for each in first))
        for each in first:
            await each.stop()
        alone, other, _ = servers()
        await alone.start()
        await until(lambda: alone.loader.loaded_snapshots == 1)
        assert has_feature(alone, "first")
        assert not has_feature(alone, "second")
        assert alone.services.is_early_start
        assert alone._image_for_authentication().features["second"] == 1
        await other.start()
        await until(lambda: not alone.services.is_early_start)
        assert has_feature(alone, "second")
        for each in (alone, other):
            await each.stop()

    run(story)


def test_empty_log_without_a_bootstrap_checkpoint_is_refused(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()
    (tmp_path / "0/bootstrap.checkpoint").unlink()

    async def story() -> None:
        with pytest.raises(StorageError, match="its metadata log is empty"):
            await quorum.server(0).start()

    run(story)


# Bad input: one clear line, and nothing is lost.


def test_controller_of_another_cluster_does_not_take_part_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    quorum = quorum_of(tmp_path, 3)
    quorum.format()
    path = tmp_path / "2" / "meta.properties"
    path.write_text(path.read_text().replace(CLUSTER_ID, "another-cluster-000000"))

    async def story() -> None:
        servers = [quorum.server(number) for number in range(2)]
        other = quorum.server(2)
        for each in (*servers, other):
            await each.start()
        await until(lambda: (leader := leader_of(servers)) is not None and _is_announced(leader))
        await until(lambda: "belong to another cluster" in caplog.text)
        assert "cluster_id=another-cluster-000000" in caplog.text
        assert not other.loader.has_records
        for each in (*servers, other):
            await each.stop()

    run(story)


def test_record_of_a_newer_kafka_stops_the_controller_and_is_named(tmp_path: Path) -> None:
    quorum = quorum_of(tmp_path, 1)
    quorum.format()
    reasons: list[str] = []

    async def story() -> None:
        server = quorum.server(0)
        server._broken = reasons.append
        await server.start()
        await until(partial(_is_leader, server))
        await until(partial(has_feature, server, "metadata.version"))
        # Frame version 1, record type 120, version 0.
        batch = build_batch([Record(value=b"\x01\x78\x00", timestamp=1)])
        server.raft.driver.append(server.leader.epoch, bytearray(batch), 1, lambda _, __: None)
        await until(lambda: bool(reasons))
        await server.stop()

    run(story)
    assert "there is no metadata record of type 120; a newer Kafka wrote it" in reasons[0]


def test_without_a_majority_nothing_is_written_and_nothing_is_lost(tmp_path: Path) -> None:
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
        others = [each for each in servers if each is not leader]
        for each in others:
            await each.stop()
        # It learns of the lost majority within the fetch timeout, and leads no more.
        await until(lambda: not leader.services.is_controller)
        with pytest.raises(ControllerFenced):
            _ = leader.services.controller
        again = quorum.server(servers.index(others[0]))
        await again.start()
        pair = [leader, again]
        await until(lambda: (found := leader_of(pair)) is not None and _is_announced(found))
        await until(lambda: all(has_feature(each, "first") for each in pair))
        for each in pair:
            await each.stop()

    run(story)


def test_voter_with_a_wiped_disk_is_replaced(tmp_path: Path) -> None:
    """With its new directory id it observes; it is a voter again once it was added."""
    quorum = quorum_of(tmp_path, 3)
    quorum.format()

    async def change(servers: list[ControllerServer], request: Message, done: ErrorCode) -> None:
        """Ask whichever node leads until the change is made; `done` says that it was before."""
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        while error not in (ErrorCode.NONE, done):
            await asyncio.sleep(0.05)
            leader = leader_of(servers)
            if leader is None:
                continue
            answers: list[Message] = []
            leader.raft.receive(request, answers.append)
            await until(partial(bool, answers))
            (answer,) = answers
            assert isinstance(answer, AddRaftVoterResponse | RemoveRaftVoterResponse)
            error = answer.error_code

    async def story() -> None:
        servers = [quorum.server(number) for number in range(2)]
        for each in servers:
            await each.start()
        await until(lambda: (leader := leader_of(servers)) is not None and _is_announced(leader))
        leader = leader_of(servers)
        assert leader is not None
        await write(leader, FeatureFinalized("first", 1))
        lost = leader.raft.client.voters.find(2)
        assert lost is not None
        shutil.rmtree(tmp_path / "2")
        with pytest.raises(StorageError, match="headwater storage format"):
            await quorum.server(2).start()
        quorum.format_observer(2)
        wiped = quorum.server(2)
        await wiped.start()
        await until(lambda: has_feature(wiped, "first"))
        assert not wiped.raft.client.is_voter
        remove = RemoveRaftVoterRequest(voter_id=2, voter_directory_id=lost.key.directory_id)
        nodes = [*servers, wiped]
        await change(nodes, remove, ErrorCode.VOTER_NOT_FOUND)
        own = wiped.raft.client._core.identity
        add = AddRaftVoterRequest(
            voter_id=2,
            voter_directory_id=own.key.directory_id,
            listeners=(Listener(name="CONTROLLER", host="127.0.0.1", port=quorum.ports[2]),),
        )
        await change(nodes, add, ErrorCode.DUPLICATE_VOTER)
        await until(lambda: wiped.raft.client.is_voter)
        for each in nodes:
            await each.stop()

    run(story)
