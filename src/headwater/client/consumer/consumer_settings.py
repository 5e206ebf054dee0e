"""Settings of consumers, under Kafka's names and with Kafka's defaults."""

from dataclasses import dataclass

from headwater.client.assignors import ASSIGNORS, Assignor
from headwater.client.consumer.auto_offset_reset import (
    AutoOffsetReset,
    offset_reset,
    parse_offset_reset,
)
from headwater.client.serialization.serdes import Deserializer, deserializer
from headwater.client.settings import ClientSettings, plugin, setting
from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.setting_types import (
    boolean,
    integer,
    long,
    one_of,
    optional,
    split_list,
    text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """Settings of the consumer."""

    group_id: str | None = setting(optional(text()), None)
    group_instance_id: str | None = setting(optional(text()), None)
    group_protocol: str = setting(one_of("classic", "consumer"), "classic")
    group_remote_assignor: str | None = setting(optional(text()), None)
    partition_assignment_strategy: object = plugin(("range", "cooperative-sticky"))
    session_timeout_ms: int = setting(integer(1), 45_000)
    heartbeat_interval_ms: int = setting(integer(1), 3_000)
    max_poll_interval_ms: int = setting(integer(1), 300_000)
    max_poll_records: int = setting(integer(1), 500)
    enable_auto_commit: bool = setting(boolean(), True)
    auto_commit_interval_ms: int = setting(integer(0), 5_000)
    auto_offset_reset: str = setting(offset_reset(), "latest")
    isolation_level: str = setting(one_of("read_uncommitted", "read_committed"), "read_uncommitted")
    fetch_min_bytes: int = setting(integer(0), 1)
    fetch_max_bytes: int = setting(integer(0), 52_428_800)
    fetch_max_wait_ms: int = setting(integer(0), 500)
    max_partition_fetch_bytes: int = setting(integer(0), 1_048_576)
    check_crcs: bool = setting(boolean(), True)
    exclude_internal_topics: bool = setting(boolean(), True)
    allow_auto_create_topics: bool = setting(boolean(), True)
    default_api_timeout_ms: int = setting(integer(0), 60_000)
    # Tables are taken whole, so larger responses pay off.
    headwater_table_fetch_bytes: int = setting(integer(0), 8_388_608)
    # Limit for a decompressed batch, against decompression bombs, as on brokers.
    headwater_unpacked_max_bytes: int = setting(long(1), 104_857_600)
    key_deserializer: object = plugin(None)
    value_deserializer: object = plugin(None)
    interceptor_classes: object = plugin(())

    @property
    def is_committed_only(self) -> bool:
        return self.isolation_level == "read_committed"

    @property
    def reset_strategy(self) -> AutoOffsetReset:
        return parse_offset_reset(self.auto_offset_reset)

    def deserializer_of_keys(self) -> Deserializer | None:
        return deserializer(self.key_deserializer, "key.deserializer")

    def deserializer_of_values(self) -> Deserializer | None:
        return deserializer(self.value_deserializer, "value.deserializer")

    def check(self) -> None:
        """Check combinations of settings. Raises `InvalidSetting`."""
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise InvalidSetting("heartbeat.interval.ms must be below session.timeout.ms")
        if self.group_id == "":
            raise InvalidSetting("group.id must not be empty; leave it out to use no group")
        if self.group_instance_id is not None and not self.group_instance_id:
            raise InvalidSetting("group.instance.id must not be empty")
        self.assignors()

    def assignors(self) -> tuple[Assignor, ...]:
        """The client-side assignors, in order of preference."""
        given = self.partition_assignment_strategy
        if isinstance(given, str):
            given = split_list(given)
        if isinstance(given, Assignor):
            given = (given,)
        if not isinstance(given, list | tuple) or not given:
            raise InvalidSetting(
                f"partition.assignment.strategy must be a list of assignors, not {given!r}"
            )
        chosen = tuple(_assignor(each) for each in given)
        if not frozenset.intersection(*(each.protocols for each in chosen)):
            raise InvalidSetting("partition.assignment.strategy mixes rebalance protocols")
        return chosen


def _assignor(given: object) -> Assignor:
    if isinstance(given, Assignor):
        return given
    # Kafka's own form is a Java class name.
    name = str(given).rpartition(".")[2]
    found = ASSIGNORS.get(_JAVA_NAMES.get(name, name))
    if found is None:
        known = ", ".join(ASSIGNORS)
        raise InvalidSetting(
            f"partition.assignment.strategy: unknown assignor {given!r}; choose from {known}"
        )
    return found


_JAVA_NAMES = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
