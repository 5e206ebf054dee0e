"""Decide which properties of a cluster are problems. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.cli.doctor.diagnosis import Diagnosis, Severity
from headwater.cli.times import short_duration

# As leader.imbalance.per.broker.percentage of Kafka; a few partitions are always uneven.
MAX_IMBALANCE_PERCENT: Final = 10
MIN_IMBALANCED: Final = 3
MAX_LEADER_SHARE: Final = 1.5
MIN_LEADER_SURPLUS: Final = 5
# A group that has used so much of the retention is about to lose records.
MAX_RETENTION_PERCENT: Final = 80
MIN_FREE_PERCENT: Final = 15

PER_BROKER_SETTINGS: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "headwater.metrics.listener",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
    }
)
"""Settings that are meant to differ between brokers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """One partition; `leader` is None if there is none."""

    name: str
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_insync_replicas: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupFacts:
    """A group in a partition: its lag and the retention of the topic."""

    group: str
    partition: str
    lost: int
    time_ms: int
    retention_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirFacts:
    broker: int
    path: str
    total_bytes: int
    usable_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumFacts:
    """The metadata quorum of a KRaft cluster."""

    has_leader: bool
    voters: tuple[int, ...] = ()
    lagging: tuple[int, ...] = ()
    """Voters that have not followed the leader lately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What the brokers report."""

    brokers: tuple[int, ...]
    controller: int | None
    unreachable: tuple[int, ...] = ()
    partitions: tuple[PartitionFacts, ...] = ()
    groups: tuple[GroupFacts, ...] = ()
    hanging: tuple[tuple[str, int], ...] = ()
    """Partitions and producer ids of hanging transactions."""
    configs: Mapping[int, Mapping[str, str | None]] = field(default_factory=dict)
    log_dirs: tuple[LogDirFacts, ...] = ()
    quorum: QuorumFacts | None = None
    """None on ZooKeeper and on a standalone broker."""


def cluster_findings(facts: ClusterFacts) -> list[Diagnosis]:
    """Return the problems, the worst checks first."""
    return [
        *_brokers(facts),
        *_availability(facts),
        *_replication_factors(facts),
        *_leaders(facts),
        *_groups(facts.groups),
        *_transactions(facts),
        *_configs(facts),
        *_log_dirs(facts.log_dirs),
    ]


def _brokers(facts: ClusterFacts) -> Iterator[Diagnosis]:
    if facts.quorum is not None:
        yield from _quorum(facts.quorum)
    elif facts.controller is None:
        yield Diagnosis(
            check="controller",
            severity=Severity.ERROR,
            subjects=("cluster",),
            problem="no broker is the controller",
            why="No leader is elected and no topic can be created or changed.",
            fix="check that brokers reach ZooKeeper: zookeeper.connect, and the brokers' logs",
        )
    if facts.unreachable:
        yield Diagnosis(
            check="unreachable-brokers",
            severity=Severity.ERROR,
            subjects=_names("broker", facts.unreachable),
            problem="registered, but does not answer",
            why="Clients that look for its partitions time out until its registration expires.",
            fix="check the broker's log and advertised.listeners; restart it",
        )


def _quorum(quorum: QuorumFacts) -> Iterator[Diagnosis]:
    if not quorum.has_leader:
        yield Diagnosis(
            check="controller",
            severity=Severity.ERROR,
            subjects=("cluster",),
            problem="no controller is active",
            why="No leader is elected and no topic can be created or changed.",
            fix="start controllers until a majority of the voters runs; see the controllers' logs",
        )
    if quorum.lagging:
        spare = max(0, (len(quorum.voters) - 1) // 2 - len(quorum.lagging))
        yield Diagnosis(
            check="lagging-voters",
            severity=Severity.WARNING,
            subjects=_names("controller", quorum.lagging),
            problem="does not follow the metadata log",
            why=f"The quorum of {len(quorum.voters)} voters survives {spare} more failures.",
            fix="restart it; if its disk is lost: headwater cluster quorum remove-voter, add-voter",
        )


def _availability(facts: ClusterFacts) -> Iterator[Diagnosis]:
    offline = [each for each in facts.partitions if each.leader is None]
    if offline:
        missing = _brokers_of(each.isr or each.replicas for each in offline)
        yield Diagnosis(
            check="offline-partitions",
            severity=Severity.ERROR,
            subjects=tuple(each.name for each in offline),
            problem="no leader: neither readable nor writable",
            why="Every broker in ISR and ELR is down or has lost its disk.",
            fix=f"start {missing}; if they are lost for good: "
            f"headwater partitions elect-leader --unclean {_arguments(offline)} (loses records)",
        )
    led = [each for each in facts.partitions if each.leader is not None]
    under_min = [
        each for each in led if len(each.isr) < min(each.min_insync_replicas, len(each.replicas))
    ]
    if under_min:
        yield Diagnosis(
            check="under-min-isr",
            severity=Severity.ERROR,
            subjects=tuple(each.name for each in under_min),
            problem="fewer in-sync replicas than min.insync.replicas",
            why="Producers with acks=all get NOT_ENOUGH_REPLICAS.",
            fix=f"start {_brokers_of(_missing(each) for each in under_min)}",
        )
    under = [each for each in led if len(each.isr) < len(each.replicas) and each not in under_min]
    if under:
        yield Diagnosis(
            check="under-replicated",
            severity=Severity.WARNING,
            subjects=tuple(each.name for each in under),
            problem="some replicas are not in the ISR",
            why="One more failure may make them unavailable, or lose records.",
            fix=f"start {_brokers_of(_missing(each) for each in under)}, or look for a slow disk "
            "or network there: headwater topics describe --under-replicated",
        )


def _replication_factors(facts: ClusterFacts) -> Iterator[Diagnosis]:
    """A topic survives a failure with at least one replica more than its min ISR."""
    if len(facts.brokers) < 2:
        return
    by_topic: dict[str, PartitionFacts] = {}
    for each in facts.partitions:
        by_topic.setdefault(each.name.rpartition("-")[0], each)
    single = [topic for topic, each in by_topic.items() if len(each.replicas) == 1]
    if single:
        yield Diagnosis(
            check="single-replica",
            severity=Severity.WARNING,
            subjects=tuple(single),
            problem="one replica only",
            why="If its broker fails the partition is unavailable, and if the disk fails all its "
            "records are lost.",
            fix="headwater partitions plan --topic TOPIC --replication-factor 3, then reassign",
        )
    tight = [
        topic
        for topic, each in by_topic.items()
        if 1 < len(each.replicas) <= each.min_insync_replicas
    ]
    if tight:
        yield Diagnosis(
            check="min-isr",
            severity=Severity.WARNING,
            subjects=tuple(tight),
            problem="fewer replicas than min.insync.replicas + 1",
            why="As soon as one broker restarts, producers with acks=all fail.",
            fix="headwater configs alter --topic TOPIC min.insync.replicas=..., or add replicas",
        )


def _leaders(facts: ClusterFacts) -> Iterator[Diagnosis]:
    led = [each for each in facts.partitions if each.leader is not None]
    preferred = Counter(each.replicas[0] for each in led)
    moved = Counter(each.replicas[0] for each in led if each.leader != each.replicas[0])
    away = [
        broker
        for broker, count in sorted(moved.items())
        if count >= MIN_IMBALANCED
        and 100 * count > MAX_IMBALANCE_PERCENT * preferred[broker]
        # While it is down, it cannot lead.
        and broker in facts.brokers
    ]
    if away:
        yield Diagnosis(
            check="leader-imbalance",
            severity=Severity.WARNING,
            subjects=_names("broker", away),
            problem=f"{sum(moved[each] for each in away)} partitions are not led by their "
            "preferred replica",
            why="Other brokers serve its clients too; after a restart, leaderships move back only "
            "with an election.",
            fix="headwater partitions elect-leader --all",
        )
        return
    leaders = Counter(each.leader for each in led)
    average = len(led) / max(len(facts.brokers), 1)
    heavy = [
        broker
        for broker in facts.brokers
        if leaders[broker] > MAX_LEADER_SHARE * average
        and leaders[broker] > average + MIN_LEADER_SURPLUS
    ]
    if heavy:
        yield Diagnosis(
            check="leader-skew",
            severity=Severity.WARNING,
            subjects=_names("broker", heavy),
            problem=f"leads {leaders[heavy[0]]} partitions; the average is {average:.1f}",
            why="It does the work of several brokers, and its core or network becomes the limit.",
            fix="headwater partitions plan, then headwater partitions reassign",
        )


def _groups(groups: Iterable[GroupFacts]) -> Iterator[Diagnosis]:
    groups = list(groups)
    lost = [each for each in groups if each.lost > 0]
    if lost:
        yield Diagnosis(
            check="group-behind-retention",
            severity=Severity.ERROR,
            subjects=tuple(f"{each.group} in {each.partition}" for each in lost),
            problem=f"{sum(each.lost for each in lost):,} records were deleted before the group "
            "read them",
            why="The consumer gets OFFSET_OUT_OF_RANGE and skips them, or everything, depending on "
            "auto.offset.reset.",
            fix="restart the consumer, or delete the group if it is abandoned: "
            f"headwater groups delete {lost[0].group}; longer retention.ms for the topic",
        )
    close = [
        each
        for each in groups
        if not each.lost
        and each.retention_ms is not None
        and 100 * each.time_ms > MAX_RETENTION_PERCENT * each.retention_ms
    ]
    if close:
        oldest = max(close, key=lambda each: each.time_ms)
        yield Diagnosis(
            check="group-near-retention",
            severity=Severity.WARNING,
            subjects=tuple(f"{each.group} in {each.partition}" for each in close),
            problem=f"the next record is {short_duration(oldest.time_ms)} old; retention.ms is "
            f"{short_duration(oldest.retention_ms or 0)}",
            why="Records will be deleted before the group reads them.",
            fix=f"headwater groups lag {oldest.group}; restart or scale the consumer, or raise "
            "retention.ms of the topic",
        )


def _transactions(facts: ClusterFacts) -> Iterator[Diagnosis]:
    if facts.hanging:
        partition, producer = facts.hanging[0]
        yield Diagnosis(
            check="hanging-transactions",
            severity=Severity.ERROR,
            subjects=tuple(f"{each} (producer {producer})" for each, producer in facts.hanging),
            problem="an open transaction that no coordinator knows",
            why="The last stable offset stands still, and with it every read_committed consumer; "
            "compaction stops there too.",
            fix="headwater transactions find-hanging, then headwater transactions abort "
            f"{partition} --producer-id {producer} --start-offset ...",
        )


def _configs(facts: ClusterFacts) -> Iterator[Diagnosis]:
    names = sorted({name for configs in facts.configs.values() for name in configs})
    for name in names:
        if name in PER_BROKER_SETTINGS or name.startswith("listener.name."):
            continue
        values = {broker: configs.get(name) for broker, configs in facts.configs.items()}
        if len(set(values.values())) > 1:
            shown = ", ".join(f"{broker}: {value}" for broker, value in sorted(values.items()))
            yield Diagnosis(
                check="different-configs",
                severity=Severity.WARNING,
                subjects=(name,),
                problem=f"differs between brokers ({shown})",
                why="The cluster behaves differently depending on which broker leads or is "
                "controller.",
                fix=f"headwater configs alter --all-brokers {name}=..., or the same "
                "server.properties on all brokers and a restart",
            )


def _log_dirs(log_dirs: Iterable[LogDirFacts]) -> Iterator[Diagnosis]:
    full = [
        each
        for each in log_dirs
        if each.total_bytes > 0 and 100 * each.usable_bytes < MIN_FREE_PERCENT * each.total_bytes
    ]
    if full:
        least = min(full, key=lambda each: each.usable_bytes / each.total_bytes)
        yield Diagnosis(
            check="free-space",
            severity=Severity.WARNING,
            subjects=tuple(f"broker {each.broker}: {each.path}" for each in full),
            problem=f"{100 * least.usable_bytes // least.total_bytes}% of the disk is free",
            why="On a full disk the log directory goes offline, and a broker without another one "
            "stops.",
            fix="headwater configs alter --topic TOPIC retention.ms=..., or enlarge the volume",
        )


def _missing(partition: PartitionFacts) -> list[int]:
    return [each for each in partition.replicas if each not in partition.isr]


def _brokers_of(several: Iterable[Iterable[int]]) -> str:
    found = sorted({each for some in several for each in some})
    kind = "broker" if len(found) == 1 else "brokers"
    return f"{kind} {', '.join(map(str, found))}"


def _names(kind: str, ids: Iterable[int]) -> tuple[str, ...]:
    return tuple(f"{kind} {each}" for each in ids)


def _arguments(partitions: list[PartitionFacts]) -> str:
    first = partitions[0].name.rpartition("-")
    return f"{first[0]}:{first[2]}" + (" ..." if len(partitions) > 1 else "")
