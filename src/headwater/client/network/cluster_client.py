"""A client's view of a whole cluster: connections, metadata that stays fresh, coordinators.

The shared floor of producer, consumer and admin. It lives on one asyncio loop and belongs to its
thread. What a reader would get wrong: `metadata` is what was last heard, and never waited for;
`topic` and `refresh` wait. A node may have several connections, one per role, so that a heartbeat
does not stand in line behind a fetch that waits for records.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from headwater.client.argument_checks import topic_name
from headwater.client.error_messages import meaning
from headwater.client.errors import (
    BrokerNotAvailable,
    ClientClosed,
    KafkaError,
    KafkaTimeout,
    error_for,
    is_about_login,
)
from headwater.client.network.bootstrap_addresses import BootstrapAddress, parse_bootstrap
from headwater.client.network.broker_connection import BrokerConnection
from headwater.client.network.cluster_metadata import (
    NO_NODE,
    BrokerNode,
    ClusterMetadata,
    TopicView,
)
from headwater.client.network.exponential_backoff import ExponentialBackoff
from headwater.client.network.metadata_refresh import MetadataRefresh
from headwater.client.network.oauth_token_cache import OAuthTokenCache, tokens_of
from headwater.client.network.retries import Retrying
from headwater.client.settings import ClientSettings, tls_of
from headwater.common.error_codes import ErrorCode
from headwater.common.ports import Clock, Random
from headwater.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from headwater.protocol.messages.metadata import MetadataResponse
from headwater.protocol.older_versions import Message

GROUP: Final = 0
TRANSACTION: Final = 1

_KINDS: Final = {GROUP: "group", TRANSACTION: "transactional.id"}
# A new cluster may need a moment to create the coordinators' topics.
_COORDINATOR_PATIENCE_MS: Final = 3_000
_COORDINATOR_WARNING_INTERVAL_MS: Final = 30_000

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)


class _Way(NamedTuple):
    """Which connection: a node, and what it is used for."""

    node_id: int
    role: str


class ClusterClient:
    """Connections to all brokers of a cluster. Made and used on the loop's thread only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: ClientSettings,
        clock: Clock,
        rng: Random,
        *,
        metadata_max_idle_ms: int | None = None,
    ) -> None:
        backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        self.loop = loop
        self.settings = settings
        self.clock = clock
        self.rng = rng
        self.retrying = Retrying(clock, rng, backoff)
        self.metadata = ClusterMetadata()
        self.schedule = MetadataRefresh(
            max_age_ms=settings.metadata_max_age_ms,
            backoff=backoff,
            max_idle_ms=metadata_max_idle_ms,
        )
        self.is_closed = False
        self._tls = tls_of(settings)
        self._tokens: OAuthTokenCache | None = tokens_of(settings, clock)
        self._connections: dict[_Way, BrokerConnection] = {}
        # Bootstrap servers have negative ids until they say who they are.
        self._bootstrap = {
            -2 - index: address
            for index, address in enumerate(parse_bootstrap(settings.bootstrap_servers))
        }
        self._coordinators: dict[tuple[int, str], BrokerNode] = {}
        # By kind of coordinator: when to warn that none is available.
        self._warn_at_ms: dict[int, int] = {}
        self._listeners: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_asking = False
        self._last_error: KafkaError | None = None

    # Metadata.

    def on_metadata(self, listener: Callable[[], None]) -> None:
        """Have a function called after every answer, when `metadata` is the new one."""
        self._listeners.append(listener)

    def want_refresh(self) -> None:
        """What is known proved wrong: ask again as soon as the back-off allows."""
        self.schedule.want()
        self._plan()

    def use_topic(self, topic: str) -> TopicView | None:
        """What is known of a topic, without waiting; from now on it is kept fresh."""
        if self.schedule.use(topic, self.clock.steady_ms()):
            self._plan()
        return self.metadata.topics.get(topic)

    def use_topics(self, topics: Iterable[str]) -> None:
        """Have what is not known of topics asked for at once, and not topic by topic."""
        for name in topics:
            topic_name(name)
            self.use_topic(name)

    async def refresh(self, *, deadline_ms: int) -> ClusterMetadata:
        """Wait for an answer that was asked for from now on."""
        # One that is under way may have been asked before what the caller has just done.
        rounds = 2 if self._is_asking else 1
        self.want_refresh()
        for _ in range(rounds):
            await self._next_answer(deadline_ms)
        return self.metadata

    async def topic(self, name: str, *, deadline_ms: int) -> TopicView:
        """A topic that exists and has partitions; waits until it does, or for the deadline.

        Raises `KafkaTimeout`, or at once what cannot get better: a bad name, missing rights.
        """
        # Among the topics that are kept fresh it would spoil the request for all others.
        topic_name(name)
        while True:
            view = self.use_topic(name)
            if view is not None:
                if view.partitions and view.error is ErrorCode.NONE:
                    return view
                if view.error and not view.error.is_retriable:
                    # The next call asks again: rights may have been given meanwhile.
                    self.metadata = self.metadata.without(frozenset((name,)))
                    raise error_for(view.error, f"topic {name}: {meaning(view.error)}")
            self.want_refresh()
            try:
                await self._next_answer(deadline_ms)
            except KafkaTimeout as timeout:
                raise self._missing(name, view) from timeout
            except asyncio.CancelledError as cancelled:
                raise cancelled from self._missing(name, view)

    def _missing(self, name: str, view: TopicView | None) -> KafkaTimeout:
        why = str(self._last_error or "no answer") if view is None else meaning(view.error)
        return KafkaTimeout(f"topic {name} is not in the metadata: {why}")

    def learn_leader(
        self,
        topic: str,
        partition: int,
        *,
        leader_id: int,
        leader_epoch: int,
        node: BrokerNode | None,
    ) -> bool:
        """A broker has named its successor in an answer (KIP-951); whether that was news."""
        before = self.metadata
        self.metadata = before.with_leader(
            topic, partition, leader_id=leader_id, leader_epoch=leader_epoch, node=node
        )
        return self.metadata is not before

    async def _next_answer(self, deadline_ms: int) -> None:
        if self.is_closed:
            raise ClientClosed("the client is closed")
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._waiters.append(waiter)
        left_ms = deadline_ms - self.clock.steady_ms()
        try:
            async with asyncio.timeout(max(left_ms, 0) / 1000):
                await waiter
        except TimeoutError as error:
            why = f": {self._last_error}" if self._last_error is not None else ""
            raise KafkaTimeout(f"no metadata in time{why}") from error
        except asyncio.CancelledError as cancelled:
            raise cancelled from self._last_error
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _plan(self) -> None:
        """Set the timer for the next request."""
        if self.is_closed or self._is_asking:
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = self.schedule.due_ms() - self.clock.steady_ms()
        self._timer = self.loop.call_later(max(wait_ms, 0) / 1000, self._ask_metadata)

    def _ask_metadata(self) -> None:
        self._timer = None
        if self.is_closed or self._is_asking:
            return
        node_id = self.least_loaded()
        request = self.schedule.request(self.clock.steady_ms())
        self._is_asking = True
        asked_all = request.topics is None
        self.connection(node_id).ask(
            request,
            lambda response: self._metadata_came(response, asked_all),
            self._metadata_failed,
        )

    def _metadata_came(self, response: MetadataResponse, asked_all: bool) -> None:
        self._is_asking = False
        if response.error_code is not ErrorCode.NONE or not response.brokers:
            self._metadata_failed(error_for(response.error_code or ErrorCode.BROKER_NOT_AVAILABLE))
            return
        self._last_error = None
        self.metadata = self.metadata.merged(response, all_topics=asked_all)
        if self.schedule.forgets:
            # Who comes back to a topic after a while waits for news of it.
            used = self.schedule.topics
            self.metadata = self.metadata.without(frozenset(self.metadata.topics).difference(used))
        self._drop_moved()
        is_whole = not any(
            topic.error_code.is_retriable
            or any(part.leader_id == NO_NODE for part in topic.partitions)
            for topic in response.topics
        )
        self.schedule.succeeded(self.clock.steady_ms(), self.rng, is_whole=is_whole)
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for listener in self._listeners:
            listener()
        self._plan()

    def _metadata_failed(self, error: KafkaError) -> None:
        self._is_asking = False
        self._last_error = error
        if is_about_login(error):
            self._tell_waiters(error)
        self.schedule.failed(self.clock.steady_ms(), self.rng)
        self._plan()

    def _tell_waiters(self, error: KafkaError) -> None:
        """As Java's clients do: to wait for somebody who does not let us in would be in vain."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    # Connections.

    def connection(self, node_id: int, role: str = "") -> BrokerConnection:
        """The connection to a node, made when it is first asked for.

        Raises `BrokerNotAvailable` for a node that nobody has named.
        """
        if self.is_closed:
            raise ClientClosed("the client is closed")
        way = _Way(node_id, role)
        found = self._connections.get(way)
        if found is None:
            found = self._connections[way] = BrokerConnection(
                self.loop,
                self.clock,
                self.rng,
                self.settings,
                self._address(node_id),
                self._tls,
                self._tokens,
            )
        return found

    def least_loaded(self) -> int:
        """A node to ask what any can answer: a ready one with few requests, else one to try."""
        known = list(self.metadata.brokers)
        start = self.rng.below(len(known)) if known else 0
        # Others than the first shall have their turn when all are equally idle.
        candidates = known[start:] + known[:start]
        if not known or (
            self.settings.metadata_recovery_strategy == "rebootstrap"
            and all(self._is_failing(node_id) for node_id in known)
        ):
            candidates += self._bootstrap
        return min(candidates, key=self._preference)

    async def call(
        self,
        node_id: int,
        message: Message,
        response: type[R],
        *,
        timeout_ms: int | None = None,
        newest: int | None = None,
        role: str = "",
    ) -> R:
        """One request to one node, and its answer. Nothing is retried."""
        connection = self.connection(node_id, role)
        return await connection.call(message, response, timeout_ms=timeout_ms, newest=newest)

    async def call_any(self, message: Message, response: type[R], *, deadline_ms: int) -> R:
        """A request that any node can answer, until one has."""

        async def attempt() -> R:
            return await self.call(self.least_loaded(), message, response)

        return await self.retrying.until(deadline_ms, attempt)

    def _preference(self, node_id: int) -> tuple[int, int]:
        connection = self._connections.get(_Way(node_id, ""))
        if connection is None:
            return (1, 0)
        if connection.is_ready:
            return (0, connection.load)
        return (3 if connection.is_failing else 2, connection.failures)

    def _is_failing(self, node_id: int) -> bool:
        connection = self._connections.get(_Way(node_id, ""))
        return connection is not None and connection.is_failing

    def _address(self, node_id: int) -> BootstrapAddress:
        if node_id in self._bootstrap:
            return self._bootstrap[node_id]
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            for coordinator in self._coordinators.values():
                if coordinator.node_id == node_id:
                    return coordinator.address
            raise BrokerNotAvailable(f"broker {node_id} is not in the metadata")
        return broker.address

    def _drop_moved(self) -> None:
        """Close connections to nodes that have moved or gone, and to bootstrap servers at rest."""
        for way, connection in list(self._connections.items()):
            broker = self.metadata.brokers.get(way.node_id)
            if way.node_id in self._bootstrap:
                is_over = connection.load == 0
            elif broker is None:
                is_over = all(each.node_id != way.node_id for each in self._coordinators.values())
            else:
                is_over = broker.address != connection.address
            if is_over:
                del self._connections[way]
                connection.close()

    # Coordinators.

    async def coordinator(self, kind: int, key: str, *, deadline_ms: int) -> int:
        """The node that coordinates a group (`GROUP`) or a transactional id (`TRANSACTION`)."""
        known = self._coordinators.get((kind, key))
        if known is None:
            known = await self.retrying.until(deadline_ms, lambda: self._find(kind, key))
        return known.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        """It is not the coordinator any more; the next call looks for it again."""
        self._coordinators.pop((kind, key), None)

    async def _find(self, kind: int, key: str) -> BrokerNode:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
        response = await self.call(self.least_loaded(), request, FindCoordinatorResponse)
        if len(response.coordinators) != 1:
            raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "no coordinator in the answer")
        found = response.coordinators[0]
        if found.error_code is not ErrorCode.NONE:
            error = error_for(found.error_code, found.error_message)
            if found.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._warn_of_no_coordinator(kind, key, error)
            raise error
        self._warn_at_ms.pop(kind, None)
        node = BrokerNode(node_id=found.node_id, address=BootstrapAddress(found.host, found.port))
        self._coordinators[kind, key] = node
        return node

    def _warn_of_no_coordinator(self, kind: int, key: str, error: KafkaError) -> None:
        """Log why there is no coordinator, if that has lasted: callers go on trying in silence."""
        now_ms = self.clock.steady_ms()
        if now_ms < self._warn_at_ms.setdefault(kind, now_ms + _COORDINATOR_PATIENCE_MS):
            return
        self._warn_at_ms[kind] = now_ms + _COORDINATOR_WARNING_INTERVAL_MS
        _log.warning("Coordinator not available: %s=%s reason=%s", _KINDS[kind], key, error)

    # The end.

    def close(self) -> None:
        """Close all connections; requests in flight are told. May be called again."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()
        self._tell_waiters(ClientClosed("the client is closed"))
