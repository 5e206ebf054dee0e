"""A client's view of a cluster: connections, fresh metadata, coordinators.

Shared by producer, consumer and admin client. Runs on one asyncio loop.

Note: `metadata` is the last response and never waits; `topic` and `refresh` wait. A node may have
several connections, one per role, so that a heartbeat does not queue behind a fetch.
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
    is_authentication_error,
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
# A new cluster may need a moment to create the internal topics of coordinators.
_COORDINATOR_WARNING_MS: Final = 3_000
_COORDINATOR_WARNING_INTERVAL_MS: Final = 30_000

_log = logging.getLogger(__name__)

R = TypeVar("R", bound=Message)


class _ConnectionKey(NamedTuple):
    """A node and the role of the connection."""

    node_id: int
    role: str


class ClusterClient:
    """Connections to all brokers of a cluster. Create and use on the loop's thread."""

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
        self._connections: dict[_ConnectionKey, BrokerConnection] = {}
        # Bootstrap servers have negative ids until metadata is known.
        self._bootstrap = {
            -2 - index: address
            for index, address in enumerate(parse_bootstrap(settings.bootstrap_servers))
        }
        self._coordinators: dict[tuple[int, str], BrokerNode] = {}
        # By kind of coordinator: when to log that none is available.
        self._warn_at_ms: dict[int, int] = {}
        self._listeners: list[Callable[[], None]] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_requesting = False
        self._last_error: KafkaError | None = None

    # Metadata.

    def on_metadata(self, listener: Callable[[], None]) -> None:
        """Call a function after every metadata response."""
        self._listeners.append(listener)

    def request_metadata_update(self) -> None:
        """Refresh stale metadata as soon as the backoff allows."""
        self.schedule.request_update()
        self._plan()

    def use_topic(self, topic: str) -> TopicView | None:
        """The metadata of a topic, without waiting; from now on the topic is refreshed."""
        if self.schedule.use(topic, self.clock.steady_ms()):
            self._plan()
        return self.metadata.topics.get(topic)

    def use_topics(self, topics: Iterable[str]) -> None:
        """Request metadata of all unknown topics in one request."""
        for name in topics:
            topic_name(name)
            self.use_topic(name)

    async def refresh(self, *, deadline_ms: int) -> ClusterMetadata:
        """Wait for the response to a request sent from now on."""
        # A response in flight may be older than what the caller has just done.
        rounds = 2 if self._is_requesting else 1
        self.request_metadata_update()
        for _ in range(rounds):
            await self._next_response(deadline_ms)
        return self.metadata

    async def topic(self, name: str, *, deadline_ms: int) -> TopicView:
        """A topic with partitions; waits until it exists, or until the deadline.

        Raises `KafkaTimeout`, or at once a fatal error: an invalid name, missing authorization.
        """
        # An invalid name would make requests for all other topics fail.
        topic_name(name)
        while True:
            view = self.use_topic(name)
            if view is not None:
                if view.partitions and view.error is ErrorCode.NONE:
                    return view
                if view.error and not view.error.is_retriable:
                    # Ask again in the next call: ACLs may have been added meanwhile.
                    self.metadata = self.metadata.without(frozenset((name,)))
                    raise error_for(view.error, f"topic {name}: {meaning(view.error)}")
            self.request_metadata_update()
            try:
                await self._next_response(deadline_ms)
            except KafkaTimeout as timeout:
                raise self._missing(name, view) from timeout
            except asyncio.CancelledError as cancelled:
                raise cancelled from self._missing(name, view)

    def _missing(self, name: str, view: TopicView | None) -> KafkaTimeout:
        why = str(self._last_error or "no response") if view is None else meaning(view.error)
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
        """Apply a new leader from a response (KIP-951); return whether it was news."""
        before = self.metadata
        self.metadata = before.with_leader(
            topic, partition, leader_id=leader_id, leader_epoch=leader_epoch, node=node
        )
        return self.metadata is not before

    async def _next_response(self, deadline_ms: int) -> None:
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
            raise KafkaTimeout(f"no metadata before the timeout{why}") from error
        except asyncio.CancelledError as cancelled:
            raise cancelled from self._last_error
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _plan(self) -> None:
        """Schedule the next request."""
        if self.is_closed or self._is_requesting:
            return
        if self._timer is not None:
            self._timer.cancel()
        wait_ms = self.schedule.due_ms() - self.clock.steady_ms()
        self._timer = self.loop.call_later(max(wait_ms, 0) / 1000, self._request_metadata)

    def _request_metadata(self) -> None:
        self._timer = None
        if self.is_closed or self._is_requesting:
            return
        node_id = self.least_loaded()
        request = self.schedule.request(self.clock.steady_ms())
        self._is_requesting = True
        all_topics = request.topics is None
        self.connection(node_id).send_request(
            request,
            lambda response: self._metadata_arrived(response, all_topics),
            self._metadata_failed,
        )

    def _metadata_arrived(self, response: MetadataResponse, all_topics: bool) -> None:
        self._is_requesting = False
        if response.error_code is not ErrorCode.NONE or not response.brokers:
            self._metadata_failed(error_for(response.error_code or ErrorCode.BROKER_NOT_AVAILABLE))
            return
        self._last_error = None
        self.metadata = self.metadata.merged(response, all_topics=all_topics)
        if self.schedule.expires_topics:
            # A topic that is used again later waits for new metadata.
            used = self.schedule.topics
            self.metadata = self.metadata.without(frozenset(self.metadata.topics).difference(used))
        self._close_obsolete()
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
        self._is_requesting = False
        self._last_error = error
        if is_authentication_error(error):
            self._fail_waiters(error)
        self.schedule.failed(self.clock.steady_ms(), self.rng)
        self._plan()

    def _fail_waiters(self, error: KafkaError) -> None:
        """Fail waiting calls at once, as Java's clients do for authentication errors."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error)

    # Connections.

    def connection(self, node_id: int, role: str = "") -> BrokerConnection:
        """The connection to a node, created on first use.

        Raises `BrokerNotAvailable` for an unknown node.
        """
        if self.is_closed:
            raise ClientClosed("the client is closed")
        key = _ConnectionKey(node_id, role)
        found = self._connections.get(key)
        if found is None:
            found = self._connections[key] = BrokerConnection(
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
        """The best node for a request that any can answer: connected, few requests."""
        known = list(self.metadata.brokers)
        start = self.rng.below(len(known)) if known else 0
        # Start at a random node, so that idle nodes share the load.
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
        """Send one request to one node. No retries."""
        connection = self.connection(node_id, role)
        return await connection.call(message, response, timeout_ms=timeout_ms, newest=newest)

    async def call_any(self, message: Message, response: type[R], *, deadline_ms: int) -> R:
        """Send a request to any node; retry until one answers."""

        async def attempt() -> R:
            return await self.call(self.least_loaded(), message, response)

        return await self.retrying.until(deadline_ms, attempt)

    def _preference(self, node_id: int) -> tuple[int, int]:
        connection = self._connections.get(_ConnectionKey(node_id, ""))
        if connection is None:
            return (1, 0)
        if connection.is_ready:
            return (0, connection.load)
        return (3 if connection.is_failing else 2, connection.failures)

    def _is_failing(self, node_id: int) -> bool:
        connection = self._connections.get(_ConnectionKey(node_id, ""))
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

    def _close_obsolete(self) -> None:
        """Close connections to nodes that moved or left, and to idle bootstrap servers."""
        for key, connection in list(self._connections.items()):
            broker = self.metadata.brokers.get(key.node_id)
            if key.node_id in self._bootstrap:
                is_obsolete = connection.load == 0
            elif broker is None:
                is_obsolete = all(
                    each.node_id != key.node_id for each in self._coordinators.values()
                )
            else:
                is_obsolete = broker.address != connection.address
            if is_obsolete:
                del self._connections[key]
                connection.close()

    # Coordinators.

    async def coordinator(self, kind: int, key: str, *, deadline_ms: int) -> int:
        """The coordinator of a group (`GROUP`) or a transactional id (`TRANSACTION`)."""
        known = self._coordinators.get((kind, key))
        if known is None:
            known = await self.retrying.until(deadline_ms, lambda: self._find(kind, key))
        return known.node_id

    def forget_coordinator(self, kind: int, key: str) -> None:
        """Look the coordinator up again in the next call."""
        self._coordinators.pop((kind, key), None)

    async def _find(self, kind: int, key: str) -> BrokerNode:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=(key,))
        response = await self.call(self.least_loaded(), request, FindCoordinatorResponse)
        if len(response.coordinators) != 1:
            raise error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the response has no coordinator")
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
        """Log a lasting lack of a coordinator: callers retry silently."""
        now_ms = self.clock.steady_ms()
        if now_ms < self._warn_at_ms.setdefault(kind, now_ms + _COORDINATOR_WARNING_MS):
            return
        self._warn_at_ms[kind] = now_ms + _COORDINATOR_WARNING_INTERVAL_MS
        _log.warning("Coordinator not available: %s=%s reason=%s", _KINDS[kind], key, error)

    # Closing.

    def close(self) -> None:
        """Close all connections; requests in flight fail. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._connections.values()):
            connection.close()
        self._connections.clear()
        self._fail_waiters(ClientClosed("the client is closed"))
