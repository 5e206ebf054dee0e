"""Options of a mirror, validated before Spark starts."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headwater.client.client_settings_filter import consumer_settings, producer_settings
from headwater.client.consumer.consumer_settings import ConsumerSettings
from headwater.client.producer.producer_settings import read_producer_settings
from headwater.client.settings import read_settings, shared_settings
from headwater.mirror.topic_naming import Naming, TopicFilter
from headwater.spark.exceptions import InvalidOption
from headwater.spark.sink.sink_options import Delivery

_ALIAS: Final = re.compile(r"[a-zA-Z0-9_-]{1,100}")
_RESERVED: Final = {
    "bootstrap.servers": "pass the cluster as an argument",
    "transactional.id": "each task sets its own",
    "group.id": "a mirror does not join a group",
    "compression.type": "batches keep their codec",
}
# Tasks copy as fast as possible, so large responses pay off.
_READING: Final = {
    "isolation.level": "read_committed",
    "max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "fetch.max.bytes": str(64 * 1024 * 1024),
}
_WRITING: Final = {
    "linger.ms": "0",
    "buffer.memory": str(64 * 1024 * 1024),
    "max.request.size": str(16 * 1024 * 1024),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    source: str
    target: str
    wanted: TopicFilter
    naming: Naming
    delivery: Delivery = Delivery.AT_LEAST_ONCE
    # None: do not sync groups.
    groups: re.Pattern[str] | None = None
    replication_factor: int = -1
    refresh_ms: int = 5_000
    idle_ms: int = 500
    slice_ms: int = 5_000
    chunk_bytes: int = 32 * 1024 * 1024
    # Settings of the consumer and the producer; other clients use the shared ones, such as TLS.
    source_settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_exactly_once(self) -> bool:
        return self.delivery is Delivery.EXACTLY_ONCE

    def reading(self) -> dict[str, str]:
        return {**_READING, **self.source_settings, "bootstrap.servers": self.source}

    def writing(self) -> dict[str, str]:
        return {**_WRITING, **self.target_settings, "bootstrap.servers": self.target}

    def source_admin(self) -> dict[str, str]:
        return {**shared_settings(self.source_settings), "bootstrap.servers": self.source}

    def target_admin(self) -> dict[str, str]:
        return {**shared_settings(self.target_settings), "bootstrap.servers": self.target}

    def at_target(self) -> dict[str, str]:
        """Settings for reading checkpoints; only committed ones count."""
        return {**self.target_admin(), "isolation.level": "read_committed"}


def mirror_options(
    source: str,
    target: str,
    *,
    topics: str,
    exclude: str | None = None,
    alias: str = "source",
    is_identity: bool = False,
    delivery: str = Delivery.AT_LEAST_ONCE.value,
    groups: str | None = ".*",
    replication_factor: int = -1,
    refresh_s: float = 5.0,
    source_settings: Mapping[str, str] | None = None,
    target_settings: Mapping[str, str] | None = None,
    source_file: Mapping[str, str] | None = None,
    target_file: Mapping[str, str] | None = None,
) -> MirrorOptions:
    """Validate options; raises `InvalidSetting` with the reason in one line.

    Settings files are shared by all kinds of clients, so settings that a mirror does not use are
    ignored.
    """
    if not _ALIAS.fullmatch(alias):
        raise InvalidOption(
            f"the alias of a cluster may have letters, digits, _ and -, not {alias}"
        )
    if delivery not in {each.value for each in Delivery}:
        known = ", ".join(each.value for each in Delivery)
        raise InvalidOption(f"delivery must be one of {known}, not {delivery}")
    if refresh_s < 0:
        raise InvalidOption(f"refresh must not be negative, is {refresh_s}")
    for settings in (source_settings or {}, target_settings or {}):
        for name, reason in _RESERVED.items():
            if name in settings:
                raise InvalidOption(f"{name} cannot be set: {reason}")
    options = MirrorOptions(
        source=source,
        target=target,
        wanted=TopicFilter(
            topics=_pattern("topics", topics),
            exclude=None if exclude is None else _pattern("exclude", exclude),
        ),
        naming=Naming(prefix="" if is_identity else f"{alias}."),
        delivery=Delivery(delivery),
        groups=None if groups is None else _pattern("groups", groups),
        replication_factor=replication_factor,
        refresh_ms=int(refresh_s * 1000),
        source_settings={
            **_without_reserved(consumer_settings(source_file or {})),
            **(source_settings or {}),
        },
        target_settings={
            **_without_reserved(producer_settings(target_file or {})),
            **(target_settings or {}),
        },
    )
    read_settings(ConsumerSettings, options.reading(), {})
    read_producer_settings(options.writing(), {})
    return options


def _without_reserved(part: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in part.items() if name not in _RESERVED}


def _pattern(name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise InvalidOption(f"{name} is not a regular expression: {error}") from None
