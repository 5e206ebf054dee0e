"""Metrics of the controller, the coordinators, topics and purgatories, read from a broker."""

import gc
from collections.abc import Iterable
from dataclasses import replace

from headwater.broker.metrics import broker_metrics
from headwater.broker.metrics.controller_metrics import ControllerSources, controller_families
from headwater.broker.metrics.coordinator_metrics import coordinator_families
from headwater.broker.metrics.prometheus_exposition import Family, exposition
from headwater.broker.metrics.runtime_metrics import GcPauses, runtime_families
from headwater.common.ids import NodeId
from headwater.common.latency_histogram import LatencyHistogram
from headwater.metadata.changes import PartitionChanged
from headwater.metadata.cluster_image import NO_LEADER
from headwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from headwater.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.simulation.labs.broker_lab import BrokerLab


def values(families: Iterable[Family]) -> dict[str, float]:
    text = b"".join(exposition(list(families))).decode()
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


CONTROLLER = "kafka_controller_kafkacontroller_"
GROUPS = "kafka_server_group_coordinator_metrics_"


def test_controller_counts_partitions_without_leader() -> None:
    lab = BrokerLab()
    lab.create("orders", partitions=3)
    sources = ControllerSources(
        image=lambda: lab.broker.image,
        is_active=lambda: lab.broker.controller_access.controller is not None,
    )
    before = values(controller_families(sources))
    assert before[CONTROLLER + "activecontrollercount"] == 1
    assert before[CONTROLLER + "activebrokercount"] == 1
    assert before[CONTROLLER + "globalpartitioncount"] == 3
    assert before[CONTROLLER + "offlinepartitionscount"] == 0
    assert before[CONTROLLER + "preferredreplicaimbalancecount"] == 0

    state = lab.broker.image.topics["orders"].partitions[1]
    offline = replace(state, leader=NO_LEADER, partition_epoch=state.partition_epoch + 1)
    lab.change(PartitionChanged("orders", 1, offline))
    after = values(controller_families(sources))
    assert after[CONTROLLER + "offlinepartitionscount"] == 1
    assert after[CONTROLLER + "preferredreplicaimbalancecount"] == 1


def join(lab: BrokerLab, group: str) -> None:
    """Join with a single member and complete the rebalance."""
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b""),),
    )
    refused = lab.ask(request, JoinGroupResponse)
    sent = lab.send(replace(request, member_id=refused.member_id))
    lab.pass_time(0)
    joined = sent.answer(JoinGroupResponse)
    assert not joined.error_code
    lab.ask(
        SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a"),),
        ),
        SyncGroupResponse,
    )


def test_groups_are_counted_by_protocol_and_state_and_rebalances_once() -> None:
    lab = BrokerLab({"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"})
    lab.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), FindCoordinatorResponse)
    join(lab, "readers")
    found = values(coordinator_families(lab.broker))
    assert found[GROUPS + 'group_count{protocol="classic",state="Stable"}'] == 1
    assert found[GROUPS + "group_completed_rebalance_total"] == 1
    assert found[GROUPS + 'num_partitions{state="active"}'] >= 1
    assert found[GROUPS + "partition_load_time_seconds_count"] >= 1


def test_topics_beyond_the_limit_are_summed_up() -> None:
    lab = BrokerLab({"headwater.metrics.topics.max": "2"})
    for name in ("a", "b", "c", "d"):
        lab.create(name)
        lab.produce(name, b"1", b"2", b"3")
    found = values(broker_metrics._of_topics(lab.broker))
    name = "kafka_server_brokertopicmetrics_messagesin_total"
    assert {key: found[key] for key in found if key.startswith(name)} == {
        name + '{topic="a"}': 3,
        name + '{topic="b"}': 3,
        name + '{topic="__other__"}': 6,
    }
    logs = values(broker_metrics._of_logs(lab.broker))
    assert 'kafka_log_log_logendoffset{topic="b",partition="0"}' in logs
    assert 'kafka_log_log_logendoffset{topic="c",partition="0"}' not in logs


def test_delayed_fetch_is_counted_while_it_waits() -> None:
    lab = BrokerLab()
    lab.create("orders")
    size = 'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="%s"}'
    lab.send(
        FetchRequest(
            replica_id=NodeId(-1),
            max_wait_ms=1_000,
            min_bytes=1,
            max_bytes=1_000_000,
            topics=(FetchTopic(topic="orders", partitions=(FetchPartition(partition=0),)),),
        ),
        12,
    )
    waiting = values(broker_metrics._of_waiting(lab.broker))
    assert (waiting[size % "Fetch"], waiting[size % "Produce"]) == (1, 0)
    lab.pass_time(1_000)
    assert values(broker_metrics._of_waiting(lab.broker))[size % "Fetch"] == 0


def test_garbage_collections_are_timed_until_closed() -> None:
    pauses = GcPauses()
    try:
        gc.collect()
        found = values(runtime_families(pauses, LatencyHistogram))
        assert found["python_gc_pause_seconds_count"] >= 1
        assert found["python_gc_pause_seconds_sum"] > 0
        assert found['python_gc_collections_total{generation="2"}'] >= 1
        assert found["headwater_event_loop_cpu_seconds_total"] > 0
    finally:
        pauses.close()
    before = pauses.pauses.count
    gc.collect()
    assert pauses.pauses.count == before
