"""One request at a time per connection, with timeouts and backoff.

A response counts only if its request is still the one in flight: late and repeated responses, also
of an election that is over, find nothing to answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headwater.common.ports import Random
from headwater.protocol.older_versions import Message
from headwater.raft.voter_set import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class InflightRequest:
    correlation_id: int
    node: Node
    message: Message
    deadline_ms: int


class RequestManager:
    """The connections of one replica."""

    __slots__ = (
        "_backoff_until_ms",
        "_bootstrap_backoff_until_ms",
        "_bootstrap_nodes",
        "_inflight",
        "_last_correlation_id",
        "_random",
        "_request_timeout_ms",
        "_retry_backoff_ms",
    )

    def __init__(
        self,
        bootstrap_nodes: Sequence[Node],
        *,
        retry_backoff_ms: int,
        request_timeout_ms: int,
        random: Random,
    ) -> None:
        self._bootstrap_nodes = tuple(bootstrap_nodes)
        self._retry_backoff_ms = retry_backoff_ms
        self._request_timeout_ms = request_timeout_ms
        self._random = random
        self._inflight: dict[Node, InflightRequest] = {}
        self._backoff_until_ms: dict[Node, int] = {}
        self._bootstrap_backoff_until_ms = 0
        self._last_correlation_id = 0

    def is_ready(self, node: Node, now_ms: int) -> bool:
        """Whether a request may be sent; an expired one no longer blocks the connection."""
        inflight = self._inflight.get(node)
        if inflight is not None:
            if now_ms < inflight.deadline_ms:
                return False
            del self._inflight[node]
        return now_ms >= self._backoff_until_ms.get(node, 0)

    def has_failed(self, node: Node, now_ms: int) -> bool:
        """Whether the connection backs off, as after a request that timed out."""
        inflight = self._inflight.get(node)
        if inflight is not None and now_ms >= inflight.deadline_ms:
            del self._inflight[node]
            self.back_off(node, now_ms)
        return now_ms < self._backoff_until_ms.get(node, 0)

    def has_any_inflight(self, now_ms: int) -> bool:
        return any(now_ms < each.deadline_ms for each in self._inflight.values())

    def find_ready_bootstrap_node(self, now_ms: int) -> Node | None:
        """A random bootstrap server; None while a request to any node is in flight."""
        if now_ms < self._bootstrap_backoff_until_ms or self.has_any_inflight(now_ms):
            return None
        if not self._bootstrap_nodes:
            return None
        first = self._random.below(len(self._bootstrap_nodes))
        for number in range(len(self._bootstrap_nodes)):
            node = self._bootstrap_nodes[(first + number) % len(self._bootstrap_nodes)]
            if self.is_ready(node, now_ms):
                return node
        return None

    def start(self, node: Node, message: Message, now_ms: int) -> InflightRequest:
        self._last_correlation_id += 1
        request = InflightRequest(
            correlation_id=self._last_correlation_id,
            node=node,
            message=message,
            deadline_ms=now_ms + self._request_timeout_ms,
        )
        self._inflight[node] = request
        self._backoff_until_ms.pop(node, None)
        return request

    def finish(self, correlation_id: int) -> InflightRequest | None:
        """The request that a response answers; None if it is no longer in flight."""
        for node, request in self._inflight.items():
            if request.correlation_id == correlation_id:
                del self._inflight[node]
                return request
        return None

    def back_off(self, node: Node, now_ms: int) -> None:
        self._backoff_until_ms[node] = now_ms + self._retry_backoff_ms

    def back_off_bootstrap(self, now_ms: int) -> None:
        """Pause before another bootstrap server is asked for the leader."""
        self._bootstrap_backoff_until_ms = now_ms + self._retry_backoff_ms

    def reset_all(self) -> None:
        """Forget everything in flight, after a change of state."""
        self._inflight.clear()
        self._backoff_until_ms.clear()
        self._bootstrap_backoff_until_ms = 0

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """When a request times out or a backoff ends; those in the past no longer count."""
        deadlines = [each.deadline_ms for each in self._inflight.values()]
        deadlines.extend(self._backoff_until_ms.values())
        deadlines.append(self._bootstrap_backoff_until_ms)
        return min((each for each in deadlines if each > now_ms), default=None)
