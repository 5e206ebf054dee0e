"""How an admin client asks: of the controller, of a coordinator, of any broker or of all.

What a reader would get wrong: a call about several things may half succeed. It then raises
`SomeFailed`, which has what succeeded and what did not. A call about one thing raises that thing's
own error.
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
    "settle",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings(ClientSettings):
    """What an admin client can be told."""

    default_api_timeout_ms: int = setting(integer(0), 60_000)


class Calls:
    """What all parts of the admin client share. For the loop's thread."""

    def __init__(self, cluster: ClusterClient, settings: AdminSettings) -> None:
        self._cluster = cluster
        self._settings = settings

    def _deadline_ms(self, timeout: float | None) -> int:
        default_ms = self._settings.default_api_timeout_ms
        return self._cluster.clock.steady_ms() + limit_ms(timeout, default_ms)

    def _left_ms(self, deadline_ms: int) -> int:
        """How long a broker may take, as it is told."""
        left_ms = deadline_ms - self._cluster.clock.steady_ms()
        return max(min(left_ms, self._settings.request_timeout_ms), 0)

    async def _retried(self, deadline_ms: int, attempt: Callable[[], Awaitable[T]]) -> T:
        return await self._cluster.retrying.until(deadline_ms, attempt)

    async def _of_any(self, request: Message, response: type[R], deadline_ms: int) -> R:
        return await self._cluster.call_any(request, response, deadline_ms=deadline_ms)

    async def _of_controller(
        self,
        request: Message,
        response: type[R],
        deadline_ms: int,
        codes: Callable[[R], Iterable[ErrorCode]] = lambda _: (),
    ) -> R:
        """The controller's answer. If it has moved, the new one is looked for."""

        async def attempt() -> R:
            if self._cluster.metadata.controller_id == NO_NODE:
                await self._cluster.refresh(deadline_ms=deadline_ms)
            node_id = self._cluster.metadata.controller_id
            if node_id not in self._cluster.metadata.brokers:
                self._cluster.want_refresh()
                raise error_for(ErrorCode.NOT_CONTROLLER, "the cluster has no controller now")
            answer = await self._call(node_id, request, response)
            if ErrorCode.NOT_CONTROLLER in codes(answer):
                self._cluster.want_refresh()
                raise error_for(ErrorCode.NOT_CONTROLLER, "the controller has moved")
            return answer

        return await self._retried(deadline_ms, attempt)

    async def _of_coordinator(
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
        """A coordinator's answer without an error that a further try would cure."""

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
                raise refusal(error, None, key)
            return answer

        return await self._retried(deadline_ms, attempt)

    async def _of_broker(
        self,
        node_id: int,
        request: Message,
        response: type[R],
        deadline_ms: int,
        code: Callable[[R], ErrorCode] = lambda _: ErrorCode.NONE,
    ) -> R:
        """One broker's answer without an error that a further try would cure."""

        async def attempt() -> R:
            answer = await self._call(node_id, request, response)
            if code(answer).is_retriable:
                raise refusal(code(answer), None, f"broker {node_id}")
            return answer

        if node_id not in self._cluster.metadata.brokers:
            await self._cluster.refresh(deadline_ms=deadline_ms)
        return await self._retried(deadline_ms, attempt)

    async def _of_all(
        self,
        request: Message,
        response: type[R],
        deadline_ms: int,
        code: Callable[[R], ErrorCode],
    ) -> list[R]:
        """The answers of all brokers, in order of their ids. Raises what one says instead."""
        metadata = await self._cluster.refresh(deadline_ms=deadline_ms)

        async def ask(node_id: int) -> R:
            answer = await self._of_broker(node_id, request, response, deadline_ms, code)
            checked(code(answer), None, f"broker {node_id}")
            return answer

        return await asyncio.gather(*(ask(node_id) for node_id in sorted(metadata.brokers)))

    async def _for_each(
        self, keys: Iterable[str], ask: Callable[[str], Awaitable[T]]
    ) -> dict[str, T]:
        """What is asked for one by one; that one fails does not keep the others from it."""
        outcomes: dict[str, T | KafkaError] = {}
        for key in keys:
            try:
                outcomes[key] = await ask(key)
            except KafkaError as error:
                outcomes[key] = error
        return settle(outcomes)

    async def _of_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[
            [int, list[TopicPartition]], Awaitable[Mapping[TopicPartition, T | KafkaError]]
        ],
        deadline_ms: int,
    ) -> dict[TopicPartition, T]:
        """What the leader of each partition says of it. One that has moved is looked for."""
        wanted = list(partitions)
        outcomes: dict[TopicPartition, T | KafkaError] = {}

        async def attempt() -> None:
            left = [each for each in wanted if each not in outcomes]
            moved: KafkaError | None = None
            for node_id, theirs in (await self._leaders(left, deadline_ms)).items():
                for partition, said in (await ask(node_id, theirs)).items():
                    if (
                        isinstance(said, KafkaError)
                        and said.is_retriable
                        and said.code.needs_refresh
                    ):
                        moved = said
                    else:
                        outcomes[partition] = said
            if moved is not None:
                self._cluster.want_refresh()
                raise moved

        await self._retried(deadline_ms, attempt)
        return settle(outcomes, asked=wanted)

    async def _call(self, node_id: int, request: Message, response: type[R]) -> R:
        """One try. A broker that does not answer may be gone, and others may have its tasks."""
        try:
            return await self._cluster.call(node_id, request, response)
        except KafkaError:
            self._cluster.want_refresh()
            raise

    async def _leaders(
        self, partitions: Iterable[TopicPartition], deadline_ms: int
    ) -> dict[int, list[TopicPartition]]:
        """Partitions by their leaders."""
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
                    self._cluster.want_refresh()
                    raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader")
                return view.leader_id

            node_id = await self._retried(deadline_ms, find)
            by_node.setdefault(node_id, []).append(partition)
        return by_node


def outcome(code: ErrorCode, message: str | None, what: object, result: T) -> T | KafkaError:
    """What came of something: the result, unless the broker refused."""
    return refusal(code, message, what) if code else result


def settle(outcomes: Mapping[K, T | KafkaError], *, asked: Iterable[K] = ()) -> dict[K, T]:
    """The results, if nothing failed, and if nothing was asked for that no answer speaks of."""
    results = {key: each for key, each in outcomes.items() if not isinstance(each, KafkaError)}
    failed = {key: each for key, each in outcomes.items() if isinstance(each, KafkaError)}
    for each in asked:
        if each not in outcomes:
            text = "the broker says nothing about it"
            failed[each] = refusal(ErrorCode.UNKNOWN_SERVER_ERROR, text, each)
    if not failed:
        return results
    if len(failed) == 1 and not results:
        raise next(iter(failed.values()))
    raise SomeFailed(results, failed)


def only(items: Sequence[T]) -> T:
    """What a broker was asked for one of; an answer about none, or more, is no answer."""
    if len(items) != 1:
        raise error_for(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"an answer about {len(items)} instead of 1"
        )
    return items[0]


def refusal(code: ErrorCode, message: str | None, what: object) -> KafkaError:
    """What a broker said of something, in its own words if it has any."""
    return error_for(code, f"{what}: {message or meaning(code)}")


def checked(code: ErrorCode, message: str | None, what: object) -> None:
    """Raise what a broker said, if it is an error."""
    if code is not ErrorCode.NONE:
        raise refusal(code, message, what)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, partition in partitions:
        found.setdefault(topic, []).append(partition)
    return found
