"""Failure detection and re-registration of brokers, in virtual time."""

import pytest

from headwater.metadata.cluster_image import NO_LEADER
from headwater.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.simulation.fakes.shared_metadata_store import SESSION_TIMEOUT_MS
from tests.simulation.labs.cluster_lab import topic
from tests.simulation.labs.cluster_node_lab import ClusterNodeLab, MemberNode

# Long for three refusals and an election, and short for a session.
SOON_MS = 1_500
assert SOON_MS < SESSION_TIMEOUT_MS / 2


@pytest.fixture
def lab() -> ClusterNodeLab:
    lab = ClusterNodeLab(3)
    lab.nodes[0].ask(
        CreateTopicsRequest(topics=(topic("t", 3, 3),), timeout_ms=10_000), CreateTopicsResponse
    )
    return lab


def leaders(lab: ClusterNodeLab) -> list[int]:
    return [each.leader for each in lab.store.image.topics["t"].partitions]


def test_killed_broker_is_replaced_long_before_its_session_expires(lab: ClusterNodeLab) -> None:
    victim = lab.others[0]
    assert victim.node_id in leaders(lab)
    victim.crash()
    lab.run(SOON_MS)
    assert victim.node_id not in lab.store.image.brokers
    assert victim.node_id not in leaders(lab)
    assert NO_LEADER not in leaders(lab)


def test_killed_controller_and_its_leaderships_are_replaced(lab: ClusterNodeLab) -> None:
    victim = lab.controller
    victim.crash()
    lab.run(2 * SOON_MS)
    assert lab.controller is not victim
    assert victim.node_id not in leaders(lab)
    assert NO_LEADER not in leaders(lab)


def _freeze(lab: ClusterNodeLab, node: MemberNode) -> None:
    del lab
    node.freeze()


def _isolate(lab: ClusterNodeLab, node: MemberNode) -> None:
    lab.network.isolate(node.node_id)


@pytest.mark.parametrize("silence", [_freeze, _isolate])
@pytest.mark.parametrize("is_controller", [False, True])
def test_silent_broker_keeps_its_session(
    lab: ClusterNodeLab, silence: object, *, is_controller: bool
) -> None:
    """A broker that is paused or disconnected may come back within its session timeout."""
    victim = lab.controller if is_controller else lab.others[0]
    epoch = lab.store.image.version.controller_epoch
    assert callable(silence)
    silence(lab, victim)
    lab.run(SOON_MS)
    assert victim.node_id in lab.store.image.brokers
    assert lab.store.image.version.controller_epoch == epoch


@pytest.mark.parametrize("is_controller", [False, True])
def test_live_broker_that_was_declared_dead_registers_again(
    lab: ClusterNodeLab, *, is_controller: bool
) -> None:
    victim = lab.controller if is_controller else lab.others[0]
    before = victim.membership.broker_epoch
    lab.store.unregister(victim.node_id)
    lab.run(SOON_MS)
    assert lab.store.image.brokers[victim.node_id].epoch == victim.membership.broker_epoch > before
    assert {node.image.controller_id for node in lab.nodes} == {lab.controller.node_id}
    assert all(len(node.image.brokers) == 3 for node in lab.nodes)


def test_live_controller_that_was_declared_dead_resigns(lab: ClusterNodeLab) -> None:
    former = lab.store.image.controller_id
    lab.store.end_control(former)
    lab.run(SOON_MS)
    assert lab.store.image.version.controller_epoch == 2
    assert {node.image.controller_id for node in lab.nodes} == {lab.controller.node_id}


def test_single_broker_that_was_declared_dead_becomes_controller_again() -> None:
    lab = ClusterNodeLab(1)
    lab.store.end_control(lab.nodes[0].node_id)
    lab.run(SOON_MS)
    assert lab.store.image.controller_id == lab.nodes[0].node_id
    assert lab.store.image.version.controller_epoch == 2
    assert lab.nodes[0].image.controller_id == lab.nodes[0].node_id


@pytest.mark.parametrize("after_ms", range(0, 40, 2))
def test_controller_may_be_deposed_while_it_takes_over(after_ms: int) -> None:
    """At any time: no other broker decides, and in the end a controller does."""
    lab = ClusterNodeLab(1)
    lab.store.end_control(lab.nodes[0].node_id)
    lab.run(after_ms)
    lab.store.end_control(lab.nodes[0].node_id)
    lab.run(SOON_MS)
    assert lab.store.image.controller_id == lab.nodes[0].node_id
    assert lab.controller.membership.controller is not None
    version = lab.controller.membership.controller.image.version
    assert version.controller_epoch == lab.store.image.version.controller_epoch
