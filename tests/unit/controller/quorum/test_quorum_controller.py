"""The active controller on a log that commits when the test says so."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.controller.quorum.quorum_controller import QuorumController
from headwater.controller.topic_changes import delete_topics
from headwater.controller.topic_creation import create_topics
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import ClusterImage, PartitionRegistration, Version
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from headwater.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
)
from headwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.simulation.labs.cluster_lab import ALL_RIGHTS, rng

KRAFT_VERSION = Feature(name="kraft.version", min_supported_version=0, max_supported_version=1)
SESSION_MS = 9_000
FIRST_OFFSET = 5


class Log:
    """Implements `QuorumWriter`; a change is a record."""

    def __init__(self) -> None:
        self.next_write_offset = FIRST_OFFSET
        self.pending: list[Callable[[], None]] = []
        self.failing: list[Failed] = []

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        self.next_write_offset += len(changes)
        version = fence._replace(sequence=fence.sequence + 1)
        self.pending.append(lambda: then(version))
        self.failing.append(on_error)

    def commit(self) -> None:
        while self.pending:
            self.failing.pop(0)
            self.pending.pop(0)()


class Cluster:
    """A controller, and the answers to requests that have been committed."""

    def __init__(self, image: ClusterImage | None = None) -> None:
        self.log = Log()
        self.now_ms = 1_000
        self.answers: list[object] = []
        self.resigned: list[HeadwaterError] = []
        self.controller = QuorumController(
            static=StaticConfig.parse({"node.id": "0", "auto.leader.rebalance.enable": "false"}),
            writer=self.log,
            image=image or ClusterImage(cluster_id="a-cluster", version=Version(3, 0)),
            kraft_version=lambda: 1,
            session_timeout_ms=SESSION_MS,
            now_ms=lambda: self.now_ms,
            call_later=lambda _delay_ms, _work: None,
            on_resigned=self.resigned.append,
        )
        self.controller.start()
        self.log.commit()

    @property
    def image(self) -> ClusterImage:
        return self.controller.event_queue.image

    def register(self, number: int, incarnation: int = 0) -> int:
        """Register a broker and return its epoch."""
        self.controller.register_broker(
            BrokerRegistrationRequest(
                broker_id=number,
                cluster_id="a-cluster",
                incarnation_id=TopicId(bytes([number, incarnation]) * 8),
                features=(KRAFT_VERSION,),
                log_dirs=(TopicId(bytes([number]) * 16),),
            ),
            then=self.answers.append,
            on_error=self.answers.append,
        )
        self.log.commit()
        response = self.answers.pop()
        assert isinstance(response, BrokerRegistrationResponse), response
        return response.broker_epoch if not response.error_code else -response.error_code

    def heartbeat(
        self, number: int, epoch: int, *, offset: int | None = None, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        self.controller.heartbeat(
            BrokerHeartbeatRequest(
                broker_id=number,
                broker_epoch=epoch,
                current_metadata_offset=self.log.next_write_offset if offset is None else offset,
                want_shut_down=want_shut_down,
            ),
            then=self.answers.append,
            on_error=self.answers.append,
        )
        self.log.commit()
        response = self.answers.pop()
        assert isinstance(response, BrokerHeartbeatResponse), response
        return response

    def unfenced(self, *numbers: int) -> list[int]:
        epochs = [self.register(each) for each in numbers]
        for number, epoch in zip(numbers, epochs, strict=True):
            assert not self.heartbeat(number, epoch).is_fenced
        return epochs

    def create(self, name: str, replicas: int) -> None:
        topic = CreatableTopic(name=name, num_partitions=3, replication_factor=replicas)
        request = CreateTopicsRequest(topics=(topic,))
        static = StaticConfig.parse({})
        self.controller.event_queue.submit(
            lambda image: create_topics(image, request, static, rng()),
            then=self.answers.append,
            on_error=self.answers.append,
        )
        self.log.commit()
        self.answers.clear()

    def partitions(self, name: str) -> tuple[PartitionRegistration, ...]:
        return self.image.topics[name].partitions

    def pass_ms(self, duration_ms: int) -> None:
        for _ in range(0, duration_ms, 100):
            self.now_ms += 100
            self.controller.expire_sessions()
        self.log.commit()


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    cluster = Cluster()
    first = cluster.register(1)
    assert first == FIRST_OFFSET
    second = cluster.register(2)
    assert second > first
    assert list(cluster.image.fenced_brokers) == [1, 2]
    behind = cluster.heartbeat(1, first, offset=first - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    caught_up = cluster.heartbeat(1, first, offset=first)
    assert (caught_up.is_caught_up, caught_up.is_fenced) == (True, False)
    assert list(cluster.image.brokers) == [1]
    assert cluster.heartbeat(1, first - 1).error_code is ErrorCode.STALE_BROKER_EPOCH
    assert cluster.heartbeat(7, first).error_code is ErrorCode.STALE_BROKER_EPOCH


def test_answers_wait_until_the_change_is_committed() -> None:
    cluster = Cluster()
    epoch = cluster.register(1)
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch)
    answers: list[object] = []
    cluster.controller.heartbeat(request, then=answers.append, on_error=answers.append)
    # The second heartbeat finds nothing to change and still waits for the first.
    cluster.controller.heartbeat(request, then=answers.append, on_error=answers.append)
    assert answers == []
    assert len(cluster.log.pending) == 1
    cluster.log.commit()
    assert answers == [BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)] * 2


def test_a_broker_whose_session_ends_is_fenced_and_its_leaders_move() -> None:
    cluster = Cluster()
    first, second = cluster.unfenced(1, 2)
    cluster.create("orders", 2)
    for _ in range(3):
        cluster.pass_ms(SESSION_MS // 3)
        cluster.heartbeat(2, second)
    assert list(cluster.image.brokers) == [1, 2]
    cluster.pass_ms(100)
    assert list(cluster.image.brokers) == [2]
    assert {each.leader for each in cluster.partitions("orders")} == {2}
    assert {each.isr for each in cluster.partitions("orders")} == {(2,)}
    # Its next heartbeat unfences it, with the same registration.
    assert not cluster.heartbeat(1, first).is_fenced
    assert list(cluster.image.brokers) == [2, 1]


def test_a_broker_that_refuses_connections_is_fenced_before_its_session_ends() -> None:
    cluster = Cluster()
    first, _ = cluster.unfenced(1, 2)
    cluster.create("orders", 2)
    cluster.controller.broker_refused(cluster.image.brokers[NodeId(1)])
    cluster.log.commit()
    assert list(cluster.image.brokers) == [2]
    assert {each.isr for each in cluster.partitions("orders")} == {(2,)}
    # It may register again at once; and if only a proxy refused, its heartbeat unfences it.
    assert not cluster.heartbeat(1, first).is_fenced
    assert list(cluster.image.brokers) == [2, 1]


def test_the_refusal_of_an_earlier_registration_fences_nothing() -> None:
    cluster = Cluster()
    cluster.unfenced(1, 2)
    earlier = cluster.image.brokers[NodeId(1)]
    cluster.controller.broker_refused(earlier)
    cluster.log.commit()
    again = cluster.register(1, incarnation=9)
    assert not cluster.heartbeat(1, again).is_fenced
    cluster.controller.broker_refused(earlier)
    assert cluster.log.pending == []
    assert list(cluster.image.brokers) == [2, 1]


def test_another_process_with_the_id_of_a_live_broker_has_to_wait_for_its_session() -> None:
    cluster = Cluster()
    cluster.unfenced(1)
    refused = cluster.register(1, incarnation=9)
    assert refused == -ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.pass_ms(SESSION_MS + 100)
    assert cluster.register(1, incarnation=9) > FIRST_OFFSET


def test_a_new_active_controller_gives_brokers_a_whole_session() -> None:
    before = Cluster()
    before.unfenced(1)
    after = Cluster(replace(before.image, version=Version(4, 0)))
    after.pass_ms(SESSION_MS)
    assert list(after.image.brokers) == [1]
    after.pass_ms(100)
    assert list(after.image.fenced_brokers) == [1]


def test_a_broker_stops_when_the_others_have_its_leaderships() -> None:
    cluster = Cluster()
    first, second = cluster.unfenced(1, 2)
    cluster.create("orders", 2)
    before = cluster.log.next_write_offset
    asked = cluster.heartbeat(1, first, want_shut_down=True)
    assert (asked.should_shut_down, asked.is_fenced) == (False, False)
    assert {each.leader for each in cluster.partitions("orders")} == {2}
    assert cluster.image.brokers[NodeId(1)].is_stopping
    cluster.heartbeat(2, second, offset=before)
    assert not cluster.heartbeat(1, first, want_shut_down=True).should_shut_down
    cluster.heartbeat(2, second)
    asked = cluster.heartbeat(1, first, want_shut_down=True)
    assert (asked.should_shut_down, asked.is_fenced) == (True, True)
    assert list(cluster.image.brokers) == [2]


def test_a_topic_is_deleted_at_once() -> None:
    """Brokers delete their replicas when they replay the record."""
    cluster = Cluster()
    cluster.unfenced(1)
    cluster.create("orders", 1)
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="orders"),))
    cluster.controller.event_queue.submit(
        lambda image: delete_topics(image, request, ALL_RIGHTS),
        then=cluster.answers.append,
        on_error=cluster.answers.append,
    )
    cluster.log.commit()
    (results,) = cluster.answers
    assert isinstance(results, tuple)
    assert [each.name for each in results] == ["orders"]
    assert "orders" not in cluster.image.topics


def test_a_failed_write_ends_the_controller_and_fails_what_waits() -> None:
    cluster = Cluster()
    epoch = cluster.register(1)
    cluster.controller.heartbeat(
        BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=epoch),
        then=cluster.answers.append,
        on_error=cluster.answers.append,
    )
    (fail,) = cluster.log.failing
    fail(ControllerFenced("not the leader"))
    assert [type(each) for each in cluster.resigned] == [ControllerFenced]
    assert [type(each) for each in cluster.answers] == [ControllerFenced]
