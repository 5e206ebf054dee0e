"""Send admin requests to the controller, a coordinator, a leader or any broker.

Note: a call about several items may succeed for some of them. It then raises `SomeFailed`, which
has the results and the errors. A call about one item raises the error of that item.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from headwater.client.argument_checks import limit_ms
from headwater.client.error_messages import meaning
from headwater.client.errors import KafkaError, SomeFailed, error_for
from headwater.client.network.cluster_client import GROUP, TRANSACTION, ClusterClient
from headwater.client.network.cluster_metadata import NO_NODE
from headwater.client.settings import ClientSettings, setting
from headwater.common.error_codes import ErrorCode
from headwater.common.ids import TopicPartition
from headwater.common.settings.setting_types import integer
from headwater.protocol.older_versions import Message

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R", bound=Message)

__all__ = [
    "GROUP",
    "TRANSACTION",
    "AdminSettings",
    "Calls",
    "by_topic",
    "checked",
    "only",
    "outcome",
    "results_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(ClientSettings):
    """Settings of the admin client."""

    default_api_timeout_ms: int = setting(integer(0), 60_000)


class Calls:
    """Base of the admin client's parts. Runs on the event loop's thread."""

    def __init__(self, cluster: ClusterClient, settings: AdminSettings) -> None:
        self._cluster = cluster
        self._settings = settings

    def _deadline_ms(self, timeout: float | None) -> int:
        default_ms = self._settings.default_api_timeout_ms
        return self._cluster.clock.steady_ms() + limit_ms(timeout, default_ms)

    def _left_ms(self, deadline_ms: int) -> int:
        """The timeout to put into a request."""
        left_ms = deadline_ms - self._cluster.clock.steady_ms()
        return max(min(left_ms, self._settings.request_timeout_ms), 0)

    async def _retried(self, deadline_ms: int, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self._cluster.retrying.until(deadline_ms, attempt)

    async def _call_any(self, request: Message, response: type[R], deadline_ms: int) -> R:
        return await self._cluster.call_any(request, response, deadline_ms=deadline_ms)

    async def _call_controller(
        self,
        request: Message,
        response: type[R],
        deadline_ms: int,
        codes: Callable[[R], Iterable[ErrorCode]] = lambda _: (),
    ) -> R:
        """Send a request to the controller; find the new one after NOT_CONTROLLER."""

        async def attempt() -> R:
            if self._cluster.metadata.controller_id == NO_NODE:
                await self._cluster.refresh(deadline_ms=deadline_ms)
            node_id = self._cluster.metadata.controller_id
            if node_id not in self._cluster.metadata.brokers:
                self._cluster.request_metadata_update()
                raise error_for(ErrorCode.NOT_CONTROLLER, "the cluster has no controller")
            answer = await self._call(node_id, request, response)
            if ErrorCode.NOT_CONTROLLER in codes(answer):
                self._cluster.request_metadata_update()
                raise error_for(ErrorCode.NOT_CONTROLLER, "the controller has moved")
            return answer

        return await self._retried(deadline_ms, attempt)

    async def _call_coordinator(
        self,
        kind: int,
        key: str,
        request: Message,
        response: type[R],
        deadline_ms: int,
        code: Callable[[R], ErrorCode],
        *,
        newest: int | None = None,
    ) -> R:
        """Send a request to a coordinator and retry retriable errors."""

        async def attempt() -> R:
            node_id = await self._cluster.coordinator(kind, key, deadline_ms=deadline_ms)
            try:
                answer = await self._cluster.call(node_id, request, response, newest=newest)
            except KafkaError:
                self._cluster.forget_coordinator(kind, key)
                raise
            error = code(answer)
            if error.is_retriable:
                self._cluster.forget_coordinator(kind, key)
                raise error_of(error, None, key)
            return answer

        return await self._retried(deadline_ms, attempt)

    async def _call_broker(
        self,
        node_id: int,
        request: Message,
        response: type[R],
        deadline_ms: int,
        code: Callable[[R], ErrorCode] = lambda _: ErrorCode.NONE,
    ) -> R:
        """Send a request to one broker and retry retriable errors."""

        async def attempt() -> R:
            answer = await self._call(node_id, request, response)
            if code(answer).is_retriable:
                raise error_of(code(answer), None, f"broker {node_id}")
            return answer

        if node_id not in self._cluster.metadata.brokers:
            await self._cluster.refresh(deadline_ms=deadline_ms)
        return await self._retried(deadline_ms, attempt)

    async def _call_all(
        self,
        request: Message,
        response: type[R],
        deadline_ms: int,
        code: Callable[[R], ErrorCode],
    ) -> list[R]:
        """Send a request to all brokers; responses in order of broker ids.

        Raises the error of any broker.
        """
        metadata = await self._cluster.refresh(deadline_ms=deadline_ms)

        async def call(node_id: int) -> R:
            answer = await self._call_broker(node_id, request, response, deadline_ms, code)
            checked(code(answer), None, f"broker {node_id}")
            return answer

        return await asyncio.gather(*(call(node_id) for node_id in sorted(metadata.brokers)))

    async def _for_each(
        self, keys: Iterable[str], call: Callable[[str], Awaitable[T]]
    ) -> dict[str, T]:
        """Call for one key after the other; the failure of one does not stop the others."""
        outcomes: dict[str, T | KafkaError] = {}
        for key in keys:
            try:
                outcomes[key] = await call(key)
            except KafkaError as error:
                outcomes[key] = error
        return results_of(outcomes)

    async def _call_leaders(
        self,
        partitions: Iterable[TopicPartition],
        call: Callable[
            [int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]
        ],
        deadline_ms: int,
    ) -> dict[TopicPartition, T]:
        """Send requests to the leaders of partitions; find new leaders after they moved."""
        wanted = list(partitions)
        outcomes: dict[TopicPartition, T | KafkaError] = {}

        async def attempt() -> None:
            left = [each for each in wanted if each not in outcomes]
            moved: KafkaError | None = None
            for node_id, theirs in (await self._leaders(left, deadline_ms)).items():
                for partition, result in (await call(node_id, theirs)).items():
                    if (
                        isinstance(result, KafkaError)
                        and result.is_retriable
                        and result.code.needs_refresh
                    ):
                        moved = result
                    else:
                        outcomes[partition] = result
            if moved is not None:
                self._cluster.request_metadata_update()
                raise moved

        await self._retried(deadline_ms, attempt)
        return results_of(outcomes, requested=wanted)

    async def _call(self, node_id: int, request: Message, response: type[R]) -> R:
        """Try once. After a failure refresh the metadata: the broker may be replaced."""
        try:
            return await self._cluster.call(node_id, request, response)
        except KafkaError:
            self._cluster.request_metadata_update()
            raise

    async def _leaders(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[int, list[TopicPartition]]:
        """Group partitions by leader."""
        by_node: dict[int, list[TopicPartition]] = {}
        wanted = list(partitions)
        self._cluster.use_topics(each.topic for each in wanted)
        for partition in wanted:

            async def find(partition: TopicPartition = partition) -> int:
                await self._cluster.topic(partition.topic, deadline_ms=deadline_ms)
                view = self._cluster.metadata.partition(*partition)
                if view is None:
                    text = f"{partition} does not exist"
                    raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
                if view.leader_id == NO_NODE:
                    self._cluster.request_metadata_update()
                    raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
                return view.leader_id

            node_id = await self._retried(deadline_ms, find)
            by_node.setdefault(node_id, []).append(partition)
        return by_node


def outcome(code: ErrorCode, message: str | None, what: object, result: T) -> T | KafkaError:
    """The result, or the error of the broker."""
    return error_of(code, message, what) if code else result


def results_of(outcomes: Mapping[K, T | KafkaError], *, requested: Iterable[K] = ()) -> dict[K, T]:
    """Return the results; raise if an item failed or is missing from the response."""
    results = {key: each for key, each in outcomes.items() if not isinstance(each, KafkaError)}
    failed = {key: each for key, each in outcomes.items() if isinstance(each, KafkaError)}
    for each in requested:
        if each not in outcomes:
            text = "missing from the response"
            failed[each] = error_of(ErrorCode.UNKNOWN_SERVER_ERROR, text, each)
    if not failed:
        return results
    if len(failed) == 1 and not results:
        raise next(iter(failed.values()))
    raise SomeFailed(results, failed)


def only(items: Sequence[T]) -> T:
    """The single item of a response to a request for one item."""
    if len(items) != 1:
        raise error_for(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the response has {len(items)} items instead of 1"
        )
    return items[0]


def error_of(code: ErrorCode, message: str | None, what: object) -> KafkaError:
    """The exception for an error code, with the broker's message if it has one."""
    return error_for(code, f"{what}: {message or meaning(code)}")


def checked(code: ErrorCode, message: str | None, what: object) -> None:
    """Raise the error of a response, if any."""
    if code is not ErrorCode.NONE:
        raise error_of(code, message, what)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
