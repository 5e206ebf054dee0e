"""An elected controller among brokers: decisions and requests to brokers."""

from functools import partial

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import NodeId, TopicPartition
from headwater.controller.configuration_control import incremental_alter_configs
from headwater.controller.partition_reassignment import alter_reassignments
from headwater.controller.producer_id_control import allocate_producer_ids
from headwater.controller.topic_changes import delete_topics
from headwater.controller.topic_creation import Results, create_topics
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerGone,
    ConfigsReplaced,
    LogDirectoryFailed,
    PartitionDropped,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import NO_LEADER, ConfigResource
from headwater.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from headwater.protocol.messages.alter_partition import AlterPartitionResponse
from headwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from headwater.protocol.messages.create_topics import CreateTopicsRequest
from headwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from headwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from headwater.protocol.older_versions import Message
from headwater.security.authorization.acl_bindings import (
    NO_ACLS,
    AclEntry,
    AclSet,
    Permission,
    ResourcePattern,
)
from headwater.security.authorization.authorizer import Operation, ResourceKind
from tests.simulation.fakes.shared_metadata_store import SESSION_TIMEOUT_MS
from tests.simulation.labs.cluster_lab import ALL_RIGHTS, STATIC, rng, topic
from tests.simulation.worlds.controller_world import ControllerWorld

EXPIRED_MS = 10_000
"""Longer than a session lives without its broker."""

T0 = TopicPartition("t", 0)


@pytest.fixture
def world() -> ControllerWorld:
    """Three brokers; broker 0 is the controller."""
    world = ControllerWorld(1)
    for number in range(3):
        world.start(number)
        world.run(1_000)
    assert world.image.controller_id == 0
    return world


def create(world: ControllerWorld, *replicas: tuple[int, ...], name: str = "t") -> None:
    asked = topic(name, assignment=dict(enumerate(replicas)))
    request = CreateTopicsRequest(topics=(asked,))
    world.leading.event_queue.submit(
        partial(create_topics, request=request, static=STATIC, rng=rng()),
        then=_check,
        on_error=_fail,
    )
    world.run(1_000)


def delete(world: ControllerWorld) -> list[str]:
    """Delete topics; return the responses that arrive."""
    said: list[str] = []
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name="t"),))
    world.leading.event_queue.submit(
        partial(delete_topics, request=request, authorization=ALL_RIGHTS),
        then=lambda results: said.append(results[0].error_code.name),
        on_error=lambda error: said.append(type(error).__name__),
    )
    return said


def reassign(world: ControllerWorld, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=(partition,)),)
    )
    world.leading.event_queue.submit(
        partial(alter_reassignments, request=request), then=lambda _: None, on_error=_fail
    )


def in_sync(world: ControllerWorld, *isr: int) -> ErrorCode:
    """The leader proposes the ISR; return the response."""
    asker = world.nodes[world.partition().leader]
    asker.answers.clear()
    world.ask_for_isr(T0, isr, asker)
    world.run(500)
    (answer,) = asker.answers
    assert isinstance(answer, AlterPartitionResponse)
    return answer.topics[0].partitions[0].error_code


def relieve(world: ControllerWorld, number: int, epoch: int | None = None) -> list[Message]:
    answers: list[Message] = []
    node = world.nodes[NodeId(number)]
    request = ControlledShutdownRequest(
        broker_id=number, broker_epoch=node.broker_epoch if epoch is None else epoch
    )
    controller = world.nodes[world.image.controller_id]
    controller.serve(NodeId(number), request, answers.append)
    world.run(1_000)
    return answers


def _check(results: Results) -> None:
    assert [each.error_code for each in results] == [ErrorCode.NONE]


def _fail(error: Exception) -> None:
    raise AssertionError(f"nothing fails here: {error}")


def test_a_new_topic_reaches_every_broker(world: ControllerWorld) -> None:
    create(world, (0, 1), (2, 0))
    for node in world.nodes.values():
        assert node.metadata_cache.image.topics == world.image.topics


def test_a_dead_leader_is_replaced_after_its_session_timeout(
    world: ControllerWorld,
) -> None:
    """PL-2, ISR-7."""
    create(world, (1, 2, 0))
    create(world, (1,), name="alone")
    world.crash(1)
    world.run(EXPIRED_MS)
    first, alone = world.partition(), world.partition("alone")
    assert (first.leader, first.isr, first.leader_epoch) == (2, (2, 0), 1)
    assert (alone.leader, alone.isr) == (NO_LEADER, (1,))
    assert world.nodes[NodeId(2)].metadata_cache.image.topics == world.image.topics
    world.start(1)
    world.run(EXPIRED_MS)
    first, alone = world.partition(), world.partition("alone")
    assert (first.leader, first.isr) == (2, (2, 0))
    assert (alone.leader, alone.isr, alone.leader_epoch) == (1, (1,), 2)
    assert world.nodes[NodeId(1)].metadata_cache.image.topics == world.image.topics


def test_an_expired_session_costs_leadership_even_if_the_process_lives(
    world: ControllerWorld,
) -> None:
    create(world, (1, 2))
    world.nodes[NodeId(1)].session.expire()
    world.run(1_000)
    partition = world.partition()
    assert (partition.leader, partition.isr) == (2, (2,))
    assert world.nodes[NodeId(1)].metadata_cache.image.topics == world.image.topics


def test_the_next_controller_completes_what_the_last_one_left(
    world: ControllerWorld,
) -> None:
    create(world, (1, 0), (0, 2), (2, 1))
    epoch = world.image.version.controller_epoch
    world.crash(0)
    world.crash(1)
    world.run(EXPIRED_MS)
    assert world.image.controller_id == 2
    assert world.image.version.controller_epoch > epoch
    leaders = [each.leader for each in world.image.topics["t"].partitions]
    assert leaders == [NO_LEADER, 2, 2]
    assert world.nodes[NodeId(2)].metadata_cache.image.topics == world.image.topics


def test_a_broker_that_restarted_without_a_controller_is_not_trusted(
    world: ControllerWorld,
) -> None:
    """It and the controller lost power at once; it was back before a controller could notice."""
    create(world, (1, 2, 0))
    world.crash(0)
    world.crash(1)
    world.start(1)
    world.run(SESSION_TIMEOUT_MS - 100)
    world.nodes[NodeId(2)].session.cut()
    world.run(600)
    world.nodes[NodeId(2)].session.heal()
    world.run(EXPIRED_MS)
    assert world.image.controller_id == 1
    partition = world.partition()
    assert (partition.leader, partition.isr) == (2, (2,))


def test_two_controllers_are_never_both_obeyed(world: ControllerWorld) -> None:
    create(world, (1, 2))
    old = world.leading
    world.nodes[NodeId(0)].session.cut()
    world.run(EXPIRED_MS)
    assert world.leading is not old
    failures: list[Exception] = []
    request = AllocateProducerIdsRequest(
        broker_id=1, broker_epoch=world.nodes[NodeId(1)].broker_epoch
    )
    old.event_queue.submit(
        partial(allocate_producer_ids, request=request),
        then=lambda _: pytest.fail("fenced"),
        on_error=failures.append,
    )
    world.run(1_000)
    assert len(failures) == 1
    assert world.image.next_producer_id == 0


def test_producer_ids_are_allocated_in_blocks(world: ControllerWorld) -> None:
    answers: list[AllocateProducerIdsResponse] = []
    for number in (1, 2):
        request = AllocateProducerIdsRequest(
            broker_id=number, broker_epoch=world.nodes[NodeId(number)].broker_epoch
        )
        world.leading.event_queue.submit(
            partial(allocate_producer_ids, request=request), then=answers.append, on_error=_fail
        )
    world.run(1_000)
    assert [each.producer_id_start for each in answers] == [0, 1_000]


def test_a_deleted_topic_disappears_for_clients_at_once_and_finally_from_the_store(
    world: ControllerWorld,
) -> None:
    """TO-4."""
    create(world, (0, 1))
    said = delete(world)
    for _ in range(1_000):
        world.run(0 if said else 1)
    assert said == ["NONE"]
    assert "t" not in world.leading.image.topics, "so that another one may be made at once"
    world.run(1_000)
    assert "t" not in world.image.topics
    for node in world.nodes.values():
        assert "t" not in node.metadata_cache.image.topics
        assert TopicDeleted("t") in node.changes


def test_a_topic_is_deleted_only_with_its_last_replica(world: ControllerWorld) -> None:
    """TO-4: a dead broker delays a deletion, also beyond the next controller."""
    create(world, (1, 2))
    world.crash(1)
    world.run(EXPIRED_MS)
    said = delete(world)
    world.run(1_000)
    assert said == []
    assert world.image.topics["t"].is_deleting
    assert "t" not in world.nodes[NodeId(2)].metadata_cache.image.topics
    world.nodes[NodeId(0)].session.expire()
    world.run(1_000)
    assert said == ["ControllerFenced"]
    assert world.image.topics["t"].is_deleting
    world.start(1)
    world.run(EXPIRED_MS)
    assert "t" not in world.image.topics


def test_a_stop_replica_lost_with_a_broker_is_sent_again(
    world: ControllerWorld,
) -> None:
    create(world, (1, 2))
    world.network.cut(NodeId(0), NodeId(1))
    delete(world)
    world.run(1_000)
    world.crash(1)
    world.run(EXPIRED_MS)
    world.network.heal()
    world.start(1)
    world.run(EXPIRED_MS)
    assert "t" not in world.image.topics


def test_brokers_that_die_together_all_stay_in_the_isr(world: ControllerWorld) -> None:
    """ISR-7: whichever returns first may lead."""
    create(world, (1, 2))
    for number in (1, 2):
        world.nodes[NodeId(number)].session.cut()
    world.leading.store_changed([BrokerGone(NodeId(1)), BrokerGone(NodeId(2))])
    world.run(1_000)
    partition = world.partition()
    assert (partition.leader, partition.isr, partition.leader_epoch) == (NO_LEADER, (1, 2), 1)


def test_a_replica_that_cannot_be_deleted_waits_for_its_broker_to_register_again(
    world: ControllerWorld,
) -> None:
    create(world, (1, 2))
    broken = world.nodes[NodeId(1)]
    broken.trouble[T0] = ErrorCode.KAFKA_STORAGE_ERROR
    delete(world)
    world.run(1_000)
    assert world.image.topics["t"].is_deleting
    broken.trouble.clear()
    broken.session.expire()
    world.run(1_000)
    assert "t" not in world.image.topics


def test_controlled_shutdown_moves_all_leaders_that_can_move(world: ControllerWorld) -> None:
    """CS-1: the response has what it could not move, but not single replicas."""
    create(world, (1, 2), (2, 1), (1, 2))
    create(world, (1,), name="alone")
    world.ask_for_isr(TopicPartition("t", 2), [1], world.nodes[NodeId(1)])
    world.run(500)
    left = RemainingPartition(topic_name="t", partition_index=2)
    assert relieve(world, 1) == [ControlledShutdownResponse(remaining_partitions=(left,))]
    partitions = world.image.topics["t"].partitions
    assert [(each.leader, each.isr) for each in partitions] == [(2, (2,)), (2, (2,)), (1, (1,))]
    assert world.partition("alone").leader == 1
    dropped = [
        each for each in world.nodes[NodeId(1)].changes if isinstance(each, PartitionDropped)
    ]
    assert dropped == [PartitionDropped("t", number, is_deleted=False) for number in (0, 1)]
    assert in_sync(world, 2, 1) is ErrorCode.INELIGIBLE_REPLICA


def test_controlled_shutdown_needs_the_current_broker_epoch(world: ControllerWorld) -> None:
    """CS-1, FEN-1."""
    (answer,) = relieve(world, 1, epoch=0)
    assert answer == ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    assert not world.leading.image.brokers[NodeId(1)].is_stopping


def test_a_failed_log_directory_moves_leadership(world: ControllerWorld) -> None:
    create(world, (1, 2), (1, 2))
    world.nodes[NodeId(1)].trouble[T0] = ErrorCode.KAFKA_STORAGE_ERROR
    world.leading.store_changed([LogDirectoryFailed(NodeId(1))])
    world.run(1_000)
    first, second = world.image.topics["t"].partitions
    assert (first.leader, first.isr) == (2, (2,))
    assert (second.leader, second.isr) == (1, (1, 2))
    assert in_sync(world, 2, 1) is ErrorCode.INELIGIBLE_REPLICA


def test_a_topic_that_a_tool_wants_deleted_past_the_controller_is_deleted(
    world: ControllerWorld,
) -> None:
    create(world, (1, 2))
    world.leading.store_changed([TopicDeletionBegun("t"), TopicDeletionBegun("nothing")])
    world.run(1_000)
    assert "t" not in world.image.topics


def test_configs_that_a_tool_writes_past_the_controller_are_applied(world: ControllerWorld) -> None:
    create(world, (1, 2))
    of_topic = ConfigResource(ResourceType.TOPIC, "t")
    world.leading.store_changed([ConfigsReplaced(of_topic, {"retention.ms": "1"})])
    assert world.leading.image.configs[of_topic] == {"retention.ms": "1"}
    assert world.leading.event_queue.proposed.configs[of_topic] == {"retention.ms": "1"}


def test_acls_that_a_tool_writes_past_the_controller_are_applied(world: ControllerWorld) -> None:
    """The next decision is based on them, and written only if they are unchanged."""
    pattern = ResourcePattern(ResourceKind.TOPIC, "t")
    rule = AclEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
    for acls in (AclSet((rule,), 4), AclSet((rule,), 0), AclSet(())):
        world.leading.store_changed([AclsReplaced(pattern, acls)])
        known = world.leading.event_queue.proposed.acls.get(pattern, NO_ACLS)
        assert known == acls


def test_a_reassignment_continues_under_the_next_controller(world: ControllerWorld) -> None:
    """RA-1."""
    create(world, (1,))
    reassign(world, 2)
    world.run(1_000)
    moving = world.partition()
    assert (moving.replicas, moving.adding, moving.removing) == ((2, 1), (2,), (1,))
    assert world.nodes[NodeId(1)].metadata_cache.image.topics == world.image.topics
    world.crash(0)
    world.run(EXPIRED_MS)
    assert in_sync(world, 1, 2) is ErrorCode.NEW_LEADER_ELECTED
    partition = world.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2,), (2,), 2)
    assert PartitionDropped("t", 0, is_deleted=True) in world.nodes[NodeId(1)].changes


def test_enabling_unclean_election_elects_a_leader_at_once(world: ControllerWorld) -> None:
    """PL-2."""
    create(world, (1, 2))
    in_sync(world, 1)
    world.crash(1)
    world.run(EXPIRED_MS)
    assert world.partition().leader == NO_LEADER
    config = AlterableConfig(name="unclean.leader.election.enable", value="true")
    resource = AlterConfigsResource(
        resource_type=ResourceType.TOPIC, resource_name="t", configs=(config,)
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,))
    world.leading.event_queue.submit(
        partial(incremental_alter_configs, request=request, static=STATIC),
        then=lambda _: None,
        on_error=_fail,
    )
    world.run(1_000)
    assert (world.partition().leader, world.partition().isr) == (2, (2,))


def test_leadership_returns_to_preferred_replicas() -> None:
    world = ControllerWorld(1, texts={"leader.imbalance.check.interval.seconds": "60"})
    for number in range(2):
        world.start(number)
        world.run(1_000)
    create(world, (1, 0), (0, 1))
    world.nodes[NodeId(1)].session.expire()
    world.run(1_000)
    assert world.partition().leader == 0
    in_sync(world, 0, 1)
    assert world.partition().leader == 0
    world.run(120_000)
    assert world.partition().leader == 1


def test_an_unreachable_broker_is_updated_when_it_can_be_reached(world: ControllerWorld) -> None:
    world.network.isolate(NodeId(2))
    create(world, (0, 1), (2, 0))
    assert not world.leading.is_idle
    assert "t" not in world.nodes[NodeId(2)].metadata_cache.image.topics
    world.network.heal()
    world.run(5_000)
    assert world.leading.is_idle
    assert world.nodes[NodeId(2)].metadata_cache.image.topics == world.image.topics


def test_a_controller_whose_write_has_no_response_reads_again(world: ControllerWorld) -> None:
    """The store's content is unknown; the same broker may be elected under a new epoch."""
    old = world.leading
    create_request = CreateTopicsRequest(topics=(topic("t", 1, 2),))
    failures: list[Exception] = []
    old.event_queue.submit(
        partial(create_topics, request=create_request, static=STATIC, rng=rng()),
        then=lambda _: pytest.fail("there was no answer"),
        on_error=failures.append,
    )
    while "t" not in world.image.topics:
        world.run(1)
    world.nodes[NodeId(0)].session.cut()
    world.run(100)
    world.nodes[NodeId(0)].session.heal()
    world.run(2_000)
    assert len(failures) == 1
    assert world.leading is not old
    assert world.image.controller_id == 0
    assert world.nodes[NodeId(1)].metadata_cache.image.topics == world.image.topics
