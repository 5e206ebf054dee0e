"""Collect facts about a cluster for `cluster_checks`, with admin requests.

A check whose requests fail, for example without authorization, is reported as not made; the others
are made nevertheless.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from headwater.cli.doctor.cluster_checks import (
    ClusterFacts,
    GroupFacts,
    LogDirFacts,
    PartitionFacts,
    QuorumFacts,
)
from headwater.cli.doctor.diagnosis import Unchecked
from headwater.cli.terminal import outcomes_of

if TYPE_CHECKING:
    from headwater.client import Admin
    from headwater.client.admin.descriptions import TopicDescription
    from headwater.client.consumer.lag_reader import LagReader

T = TypeVar("T")
TopicConfigs = Mapping[str, Mapping[str, str | None]]

# A dead broker stays in the metadata until its ZooKeeper session expires.
_ONE_ANSWER_S: Final = 5.0
# transaction.max.timeout.ms: a younger transaction may be slow, not hanging.
_OPEN_MS: Final = 900_000
_VOTER_LAG_MS: Final = 10_000
_MIN_ISR: Final = "min.insync.replicas"
_RETENTION: Final = "retention.ms"
_CLEANUP: Final = "cleanup.policy"


def cluster_facts(
    admin: "Admin", reader: "LagReader", *, now_ms: int
) -> tuple[ClusterFacts, list[Unchecked]]:
    """Ask the brokers; return what could not be found out, too."""
    unchecked: list[Unchecked] = []

    def attempt(check: str, ask: Callable[[], T], otherwise: T) -> T:
        from headwater.common.exceptions import HeadwaterError

        try:
            return ask()
        except HeadwaterError as error:
            unchecked.append(Unchecked(check, str(error)))
            return otherwise

    cluster = admin.describe_cluster()
    brokers = tuple(sorted(each.node_id for each in cluster.brokers))
    unreachable = [each for each in brokers if not _answers(admin, each)]
    live = [each for each in brokers if each not in unreachable]
    no_topics: Mapping[str, TopicDescription] = {}
    topics = attempt("partitions", lambda: _topics(admin), no_topics)
    no_configs: TopicConfigs = {}
    configs = attempt("topic configs", lambda: _topic_configs(admin, topics), no_configs)
    facts = ClusterFacts(
        brokers=brokers,
        controller=cluster.controller_id if cluster.controller_id in brokers else None,
        unreachable=tuple(unreachable),
        partitions=tuple(_partitions(topics, configs)),
        groups=attempt("groups", lambda: _groups(admin, reader, configs, now_ms), ()),
        hanging=attempt("transactions", lambda: _hanging(admin, topics, now_ms), ()),
        configs=attempt("broker configs", lambda: _broker_configs(admin, live), {}),
        quorum=attempt("quorum", lambda: _quorum(admin), None),
        log_dirs=attempt("log directories", lambda: _log_dirs(admin, live), ()),
    )
    return facts, unchecked


def _quorum(admin: "Admin") -> QuorumFacts | None:
    """Describe the metadata quorum; None for a cluster without one."""
    from headwater.client.errors import KafkaTimeout, UnsupportedVersion

    try:
        found = admin.describe_metadata_quorum(timeout=_ONE_ANSWER_S)
    except UnsupportedVersion:
        return None
    except KafkaTimeout:
        # Brokers answer, and there is no leader that they could ask.
        return QuorumFacts(has_leader=False)
    caught_up = {each.replica_id: each.last_caught_up_timestamp for each in found.voters}
    now_ms = max(caught_up.values(), default=0)
    return QuorumFacts(
        has_leader=True,
        voters=tuple(sorted(caught_up)),
        lagging=tuple(
            each for each in sorted(caught_up) if now_ms - caught_up[each] > _VOTER_LAG_MS
        ),
    )


def _answers(admin: "Admin", broker: int) -> bool:
    from headwater.client.errors import BrokerNotAvailable, KafkaTimeout, NetworkException
    from headwater.common.exceptions import HeadwaterError

    try:
        admin.describe_log_dirs([broker], timeout=_ONE_ANSWER_S)
    except (BrokerNotAvailable, KafkaTimeout, NetworkException):
        return False
    except HeadwaterError:
        # It answers, if only that this is not authorized.
        return True
    return True


def _topics(admin: "Admin") -> "Mapping[str, TopicDescription]":
    names = admin.list_topics(include_internal=True)
    return outcomes_of(lambda: admin.describe_topics(names))[0] if names else {}


def _topic_configs(admin: "Admin", topics: "Mapping[str, TopicDescription]") -> TopicConfigs:
    from headwater.client.admin.descriptions import ConfigResource

    if not topics:
        return {}
    found = admin.describe_configs(
        [ConfigResource.topic(name) for name in topics], names=[_MIN_ISR, _RETENTION, _CLEANUP]
    )
    return {
        resource.name: {name: entry.value for name, entry in entries.items()}
        for resource, entries in found.items()
    }


def _partitions(
    topics: "Mapping[str, TopicDescription]", configs: TopicConfigs
) -> list[PartitionFacts]:
    return [
        PartitionFacts(
            name=f"{name}-{each.partition}",
            leader=each.leader_id if each.leader_id >= 0 else None,
            replicas=each.replicas,
            isr=each.isr,
            min_insync_replicas=int(configs.get(name, {}).get(_MIN_ISR) or 1),
        )
        for name, topic in sorted(topics.items())
        for each in topic.partitions
    ]


def _groups(
    admin: "Admin",
    reader: "LagReader",
    configs: TopicConfigs,
    now_ms: int,
) -> tuple[GroupFacts, ...]:
    from headwater.cli.groups.group_lags import exact_lags

    names = [each.group_id for each in admin.list_groups()]
    return tuple(
        GroupFacts(
            group=each.group,
            partition=str(each.place),
            lost=each.lost or 0,
            time_ms=each.time_ms or 0,
            retention_ms=_retention_ms(configs.get(each.place.topic, {})),
        )
        for each in exact_lags(admin, reader, names, now_ms=now_ms)
        if each.records
    )


def _retention_ms(configs: Mapping[str, str | None]) -> int | None:
    """Return retention.ms; None if records are kept forever or only compacted."""
    retention_ms = int(configs.get(_RETENTION) or -1)
    is_deleted = "delete" in (configs.get(_CLEANUP) or "delete")
    return retention_ms if retention_ms >= 0 and is_deleted else None


def _hanging(
    admin: "Admin", topics: "Mapping[str, TopicDescription]", now_ms: int
) -> tuple[tuple[str, int], ...]:
    from headwater.cli.groups.hanging_transactions import hanging, open_before, owners
    from headwater.common.ids import TopicPartition

    led = [
        TopicPartition(name, each.partition)
        for name, topic in topics.items()
        for each in topic.partitions
        if each.leader_id >= 0
    ]
    producers, _ = outcomes_of(lambda: admin.describe_producers(led) if led else {})
    suspects = open_before(producers, before_ms=now_ms - _OPEN_MS)
    owner = owners(suspects, admin.list_transactions()) if suspects else {}
    described, _ = outcomes_of(
        lambda: admin.describe_transactions(sorted(set(owner.values()))) if owner else {}
    )
    return tuple(
        (f"{each.partition.topic}:{each.partition.partition}", each.producer.producer_id)
        for each in hanging(suspects, owner, described)
    )


def _broker_configs(admin: "Admin", brokers: list[int]) -> dict[int, dict[str, str | None]]:
    from headwater.client.admin.descriptions import ConfigResource

    found = {}
    for broker in brokers:
        resource = ConfigResource.broker(broker)
        entries = admin.describe_configs([resource])[resource]
        found[broker] = {
            name: entry.value for name, entry in entries.items() if not entry.is_sensitive
        }
    return found


def _log_dirs(admin: "Admin", brokers: list[int]) -> tuple[LogDirFacts, ...]:
    return tuple(
        LogDirFacts(
            broker=broker,
            path=each.path,
            total_bytes=each.total_bytes,
            usable_bytes=each.usable_bytes,
        )
        for broker, log_dirs in sorted(admin.describe_log_dirs(brokers).items())
        for each in log_dirs
    )
