"""Each planted problem of a cluster is found; a healthy cluster has none."""

from dataclasses import replace

import pytest

from headwater.cli.doctor.cluster_checks import (
    ClusterFacts,
    GroupFacts,
    LogDirFacts,
    PartitionFacts,
    QuorumFacts,
    cluster_findings,
)
from headwater.cli.doctor.diagnosis import Diagnosis, Severity

DAY_MS = 86_400_000


def partition(name: str, leader: int | None = None, **changes: object) -> PartitionFacts:
    """A replicated partition on brokers 0, 1 and 2, led by one of them by its number."""
    number = int(name.rpartition("-")[2])
    replicas = tuple((number + each) % 3 for each in range(3))
    good = PartitionFacts(
        name=name,
        leader=replicas[0] if leader is None else leader,
        replicas=replicas,
        isr=replicas,
        min_insync_replicas=2,
    )
    return replace(good, **changes)  # type: ignore[arg-type]


GROUP = GroupFacts(
    group="billing", partition="orders-0", lost=0, time_ms=DAY_MS, retention_ms=7 * DAY_MS
)
GOOD = ClusterFacts(
    brokers=(0, 1, 2),
    controller=1,
    partitions=tuple(partition(f"orders-{number}") for number in range(30)),
    groups=(GROUP,),
    configs={
        each: {"broker.id": str(each), "num.partitions": "3", "listeners": f"PLAINTEXT://h{each}:1"}
        for each in range(3)
    },
    log_dirs=(LogDirFacts(broker=0, path="/d", total_bytes=1_000, usable_bytes=500),),
)


def with_first(**changes: object) -> ClusterFacts:
    first, *rest = GOOD.partitions
    return replace(GOOD, partitions=(replace(first, **changes), *rest))  # type: ignore[arg-type]


def only(facts: ClusterFacts) -> Diagnosis:
    (found,) = cluster_findings(facts)
    return found


def test_healthy_cluster_has_no_findings() -> None:
    assert cluster_findings(GOOD) == []


@pytest.mark.parametrize(
    ("facts", "check", "severity", "subject"),
    [
        (replace(GOOD, controller=None), "controller", Severity.ERROR, "cluster"),
        (
            replace(GOOD, quorum=QuorumFacts(has_leader=False)),
            "controller",
            Severity.ERROR,
            "cluster",
        ),
        (
            replace(GOOD, quorum=QuorumFacts(has_leader=True, voters=(1, 2, 3), lagging=(3,))),
            "lagging-voters",
            Severity.WARNING,
            "controller 3",
        ),
        (replace(GOOD, unreachable=(2,)), "unreachable-brokers", Severity.ERROR, "broker 2"),
        (with_first(leader=None, isr=(0,)), "offline-partitions", Severity.ERROR, "orders-0"),
        (with_first(isr=(0,)), "under-min-isr", Severity.ERROR, "orders-0"),
        (with_first(isr=(0, 1)), "under-replicated", Severity.WARNING, "orders-0"),
        (
            replace(GOOD, groups=(replace(GROUP, lost=17),)),
            "group-behind-retention",
            Severity.ERROR,
            "billing in orders-0",
        ),
        (
            replace(GOOD, groups=(replace(GROUP, time_ms=6 * DAY_MS),)),
            "group-near-retention",
            Severity.WARNING,
            "billing in orders-0",
        ),
        (
            replace(GOOD, hanging=(("orders:3", 4_000),)),
            "hanging-transactions",
            Severity.ERROR,
            "orders:3 (producer 4000)",
        ),
        (
            replace(GOOD, configs={**GOOD.configs, 2: {"num.partitions": "1"}}),
            "different-configs",
            Severity.WARNING,
            "num.partitions",
        ),
        (
            replace(
                GOOD,
                log_dirs=(LogDirFacts(broker=1, path="/d", total_bytes=100, usable_bytes=9),),
            ),
            "free-space",
            Severity.WARNING,
            "broker 1: /d",
        ),
    ],
)
def test_planted_problem_is_found(
    facts: ClusterFacts, check: str, severity: Severity, subject: str
) -> None:
    found = only(facts)
    assert (found.check, found.severity, found.subjects) == (check, severity, (subject,))
    assert found.why.endswith(".")
    assert found.fix


def test_fix_names_the_brokers_to_start() -> None:
    assert "start broker 2," in only(with_first(isr=(0, 1))).fix
    assert "start brokers 1, 2" in only(with_first(isr=(0,))).fix
    assert "start broker 1;" in only(with_first(leader=None, isr=(1,))).fix


def test_leaders_that_did_not_return_after_a_restart_are_found() -> None:
    moved = tuple(
        replace(each, leader=1) if each.replicas[0] == 0 else each for each in GOOD.partitions
    )
    found = only(replace(GOOD, partitions=moved))
    assert (found.check, found.subjects) == ("leader-imbalance", ("broker 0",))
    assert found.fix == "headwater partitions elect-leader --all"


def test_few_moved_leaders_are_normal() -> None:
    first, second, *rest = GOOD.partitions
    moved = (replace(first, leader=1), replace(second, leader=2), *rest)
    assert cluster_findings(replace(GOOD, partitions=moved)) == []


def test_broker_with_most_leaders_by_placement_is_found() -> None:
    heavy = tuple(
        partition(f"orders-{number}", leader=0, replicas=(0, 1, 2)) for number in range(30)
    )
    found = only(replace(GOOD, partitions=heavy))
    assert (found.check, found.subjects) == ("leader-skew", ("broker 0",))


def test_topic_with_a_single_replica_is_found_in_a_cluster_only() -> None:
    alone = PartitionFacts(name="logs-0", leader=0, replicas=(0,), isr=(0,), min_insync_replicas=1)
    found = only(replace(GOOD, partitions=(*GOOD.partitions, alone)))
    assert (found.check, found.subjects) == ("single-replica", ("logs",))
    standalone = ClusterFacts(brokers=(0,), controller=0, partitions=(alone,))
    assert cluster_findings(standalone) == []


def test_topic_with_fewer_replicas_than_min_isr_plus_one_is_found() -> None:
    tight = tuple(replace(each, min_insync_replicas=3) for each in (partition("ledger-0"),))
    found = only(replace(GOOD, partitions=(*GOOD.partitions, *tight)))
    assert (found.check, found.subjects) == ("min-isr", ("ledger",))


def test_group_is_not_near_a_retention_that_does_not_exist() -> None:
    forever = replace(GROUP, time_ms=1_000 * DAY_MS, retention_ms=None)
    assert cluster_findings(replace(GOOD, groups=(forever,))) == []
