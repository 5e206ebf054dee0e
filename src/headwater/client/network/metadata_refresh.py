"""Decide when to request metadata, and for which topics. Pure.

Note: `request_update` does not send a request at once. Requests are at least `retry.backoff.ms`
apart, however many partitions have moved. Only a new topic is requested without backoff, unless the
last request failed.
"""

from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.common.ports import Random
from headwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


class MetadataRefresh:
    """The topics in use, and when the next request is due."""

    def __init__(
        self, *, max_age_ms: int, backoff: ExponentialBackoff, max_idle_ms: int | None = None
    ) -> None:
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._backoff = backoff
        self._used_ms: dict[str, int] = {}
        self._is_wanted = True
        self._failures = 0
        self._updated_ms = 0
        self._not_before_ms = 0
        self.wants_all = False
        self.allows_creation = True

    @property
    def expires_topics(self) -> bool:
        """Whether topics are dropped after they have not been used for a while."""
        return self._max_idle_ms is not None

    @property
    def topics(self) -> list[str]:
        return list(self._used_ms)

    def use(self, topic: str, now_ms: int) -> bool:
        """Mark a topic as used; return whether it is new and needs a refresh."""
        is_new = topic not in self._used_ms
        self._used_ms[topic] = now_ms
        if is_new:
            self._want_news()
        return is_new

    def set_topics(self, topics: list[str], now_ms: int) -> None:
        """Set the topics, as a consumer's subscription does."""
        if any(topic not in self._used_ms for topic in topics):
            self._want_news()
        self._used_ms = dict.fromkeys(topics, now_ms)

    def request_update(self) -> None:
        """Request a refresh as soon as the backoff allows."""
        self._is_wanted = True

    def _want_news(self) -> None:
        self.request_update()
        if not self._failures:
            self._not_before_ms = 0

    def due_ms(self) -> int:
        """When the next request should be sent."""
        if self._is_wanted:
            return self._not_before_ms
        return max(self._updated_ms + self._max_age_ms, self._not_before_ms)

    def request(self, now_ms: int) -> MetadataRequest:
        """The request to send now.

        A `request_update` while it is in flight needs another one.
        """
        self._is_wanted = False
        self._forget_idle(now_ms)
        if self.wants_all:
            return MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in self._used_ms),
            allow_auto_topic_creation=self.allows_creation,
        )

    def succeeded(self, now_ms: int, rng: Random, *, is_whole: bool) -> None:
        """A response arrived; it is not whole if topics or leaders are missing."""
        self._updated_ms = now_ms
        if is_whole:
            self._failures = 0
            self._not_before_ms = now_ms + self._backoff.after(1, rng)
        else:
            self.failed(now_ms, rng)

    def failed(self, now_ms: int, rng: Random) -> None:
        self._failures += 1
        self._is_wanted = True
        self._not_before_ms = now_ms + self._backoff.after(self._failures, rng)

    def _forget_idle(self, now_ms: int) -> None:
        if self._max_idle_ms is None:
            return
        oldest_ms = now_ms - self._max_idle_ms
        self._used_ms = {name: used for name, used in self._used_ms.items() if used >= oldest_ms}
