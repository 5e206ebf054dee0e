"""What an application asked for: topics by name, by pattern, or partitions by hand.

One of the three at a time; Kafka's consumers refuse to mix them. A pattern of text is the broker's
to match in a consumer group (RE2), and ours in a classic one; a compiled pattern is always ours.
"""

import re
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from headwater.client.argument_checks import several, topic_name
from headwater.client.errors import IllegalState, InvalidRegularExpression
from headwater.client.network.cluster_metadata import ClusterMetadata
from headwater.common.ids import TopicPartition


class RebalanceListener:
    """Told, inside `poll` and `close`, which partitions come and go. Override what you need.

    With asyncio the three may be coroutines.
    """

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """New partitions. Their positions are not known yet; `seek` may set them."""

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Partitions that another member gets next: the last moment for a commit."""

    def on_partitions_lost(self, partitions: list[TopicPartition]) -> Awaitable[None] | None:
        """Partitions that another member may have already. By default as if revoked."""
        return self.on_partitions_revoked(partitions)


class Matcher(Protocol):
    """The part of `re.Pattern` that is used."""

    def search(self, string: str, /) -> object | None: ...


@dataclass(slots=True)
class Subscription:
    """What is asked for now."""

    topics: tuple[str, ...] = ()
    pattern: Matcher | None = None
    server_pattern: str | None = None
    is_manual: bool = False
    listener: RebalanceListener = field(default_factory=RebalanceListener)

    @property
    def uses_group(self) -> bool:
        return bool(self.topics or self.pattern is not None or self.server_pattern is not None)

    def check_not_manual(self) -> None:
        if self.is_manual:
            raise IllegalState("partitions were assigned by hand; unsubscribe first")

    def check_manual(self) -> None:
        if self.uses_group:
            raise IllegalState("topics are subscribed to; unsubscribe first")

    def wanted_topics(self, metadata: ClusterMetadata, *, excludes_internal: bool) -> list[str]:
        """The topics to join the group for, as far as they are known."""
        if self.pattern is None:
            return list(self.topics)
        return sorted(
            name
            for name, view in metadata.topics.items()
            if not (excludes_internal and view.is_internal) and self.pattern.search(name)
        )


def subscription_to(
    topics: Iterable[str] | None,
    pattern: "str | re.Pattern[str] | None",
    *,
    broker_matches: bool,
    listener: RebalanceListener | None,
) -> Subscription:
    """Checks what `subscribe` was given."""
    heard = listener or RebalanceListener()
    if (topics is None) == (pattern is None):
        raise IllegalState("subscribe to topics or to a pattern")
    if pattern is None:
        names = map(topic_name, several(topics or (), "topics"))
        return Subscription(topics=tuple(dict.fromkeys(names)), listener=heard)
    if isinstance(pattern, str) and broker_matches:
        return Subscription(server_pattern=pattern, listener=heard)
    return Subscription(pattern=_whole(pattern), listener=heard)


def _whole(pattern: "str | re.Pattern[str]") -> Matcher:
    """Kafka's patterns must match the whole name, like RE2's on the broker's side."""
    if not isinstance(pattern, str):
        return pattern
    try:
        return re.compile(rf"\A(?:{pattern})\Z")
    except re.error as error:
        raise InvalidRegularExpression(f"{pattern!r} is no pattern: {error.msg}") from error
