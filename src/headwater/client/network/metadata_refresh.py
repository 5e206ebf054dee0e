"""When to ask for metadata, and about which topics. Pure: time comes in as a parameter.

What a reader would get wrong: a wish for a refresh is not a request. Between two requests lies at
least `retry.backoff.ms`, however many partitions have moved at once. Only a topic that is new waits
for nothing, unless the last request has failed.
"""

from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.common.ports import Random
from headwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic


class MetadataRefresh:
    """Which topics somebody cares for, and when the next request is due."""

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
    def forgets(self) -> bool:
        """Whether topics that nobody uses for a while are asked for no longer."""
        return self._max_idle_ms is not None

    @property
    def topics(self) -> list[str]:
        return list(self._used_ms)

    def use(self, topic: str, now_ms: int) -> bool:
        """Somebody uses a topic; whether it is new here, so that a refresh is wanted."""
        is_new = topic not in self._used_ms
        self._used_ms[topic] = now_ms
        if is_new:
            self._want_news()
        return is_new

    def set_topics(self, topics: list[str], now_ms: int) -> None:
        """Exactly these topics, as a consumer's subscription has it."""
        if any(topic not in self._used_ms for topic in topics):
            self._want_news()
        self._used_ms = dict.fromkeys(topics, now_ms)

    def want(self) -> None:
        """What is known is wrong or too little; ask as soon as the back-off allows."""
        self._is_wanted = True

    def _want_news(self) -> None:
        self.want()
        if not self._failures:
            self._not_before_ms = 0

    def due_ms(self) -> int:
        """When the next request should leave."""
        if self._is_wanted:
            return self._not_before_ms
        return max(self._updated_ms + self._max_age_ms, self._not_before_ms)

    def request(self, now_ms: int) -> MetadataRequest:
        """The request to send now. Wishes that come while it is under way need another one."""
        self._is_wanted = False
        self._forget_idle(now_ms)
        if self.wants_all:
            return MetadataRequest(topics=None, allow_auto_topic_creation=False)
        return MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=name) for name in self._used_ms),
            allow_auto_topic_creation=self.allows_creation,
        )

    def succeeded(self, now_ms: int, rng: Random, *, is_whole: bool) -> None:
        """An answer came; it is not whole while topics or leaders are missing in it."""
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
