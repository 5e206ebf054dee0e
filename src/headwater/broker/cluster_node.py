"""A broker in a cluster of several, whose facts are in ZooKeeper.

What a reader would get wrong: at its start it knows of no topic, whatever lies in its directories.
It registers, the controller tells it everything, and only then is it ready. When it is told to
stop, it first asks the controller to be relieved of what it leads, and serves on meanwhile.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from headwater.broker.colleagues import BrokerColleagues
from headwater.broker.controlled_shutdown import Answered, hand_over
from headwater.broker.listeners import listener_of_brokers
from headwater.broker.logins import login_between_brokers
from headwater.broker.member import Member
from headwater.broker.node import Node, fresh_cluster_id, known_cluster_id
from headwater.broker.peer_dial import PeerDial
from headwater.broker.standing import Standing
from headwater.broker.vigil import BrokerVigils
from headwater.cluster import local
from headwater.cluster.facts import Fact, apply
from headwater.cluster.image import FIRST_VERSION, ClusterImage, Endpoint, Version
from headwater.cluster.membership import Membership
from headwater.cluster.reception import Reception
from headwater.cluster.store import Registration
from headwater.cluster.vigils import NoVigils
from headwater.cluster.zookeeper.kazoo_keeper import KazooKeeper
from headwater.cluster.zookeeper.store import ZooKeeperStore
from headwater.model.failures import (
    HeadwaterError,
    SessionExpired,
    StoreUnreachable,
    WrongLogDirectory,
)
from headwater.model.ids import NodeId
from headwater.net.loop import posting_to
from headwater.net.peer import PeerSettings
from headwater.replication.replicas import Replicas, ReplicaTools
from headwater.wire.messages.controlled_shutdown import ControlledShutdownRequest

_log = logging.getLogger(__name__)

T = TypeVar("T")

_INFORMED_LOOK_S: Final = 10
_SLOW_CONNECT_S: Final = 2

CONNECTION_TIMEOUT_MS: Final = 30_000
"""The least that a start waits for ZooKeeper, unless `zookeeper.connection.timeout.ms` is set."""


class ClusterNode(Node):
    """See the module."""

    # Who is told by the store, before there is a member to tell: `StoreListener`.

    def changed(self, facts: Sequence[Fact], version: Version) -> None:
        if self._is_joined:
            self._membership.changed(facts, version)
        else:
            self._early.append((facts, version))

    def session_lost(self) -> None:
        if self._is_joined:
            self._membership.session_lost()

    def registration_lost(self) -> None:
        if self._is_joined:
            self._membership.registration_lost()

    # Where the other brokers are: `headwater.broker.colleagues.Directory`.

    def endpoint(self, node_id: NodeId) -> Endpoint | None:
        # The controller reaches brokers before they hear of each other.
        leading = self._membership.leading
        image = self._standing.image if leading is None else leading.image
        broker = image.brokers.get(node_id)
        return None if broker is None else broker.endpoint(self._listener)

    # Start.

    async def _open_store(self) -> ClusterImage:
        settings = self._static.settings
        assert settings.zookeeper_connect is not None
        self._early: list[tuple[Sequence[Fact], Version]] = []
        self._is_joined = False
        self._informed = asyncio.Event()
        self._listener = listener_of_brokers(settings, self._endpoints)
        tls = self._tls.towards_brokers(settings, self._listener)
        self._refuse_directory_of_lone_broker()
        self._keeper = KazooKeeper(
            settings.zookeeper_connect,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
            post=posting_to(self._loop),
        )
        self._store = ZooKeeperStore(
            self._keeper,
            clock=self._clock,
            later=self._later,
            session_timeout_ms=settings.zookeeper_session_timeout_ms,
        )
        self._store.listen(self)
        self._held.callback(self._end_session)
        self._keeper.start()
        self.cluster_id = await self._found()
        self._colleagues = BrokerColleagues(
            self._static.node_id,
            directory=self,
            dial=PeerDial(self._loop, PeerSettings(), tls),
            clock=self._clock,
            soon=self._loop.call_soon,
            log_in=login_between_brokers(settings, self._listener, self._dice),
        )
        self._vigils = BrokerVigils(
            directory=self,
            dial=PeerDial(self._loop, PeerSettings(), tls),
            clock=self._clock,
            later=self._later,
        )
        configs: asyncio.Future[Sequence[Fact]] = self._loop.create_future()
        self._store.read_configs(then=lambda facts: _resolve(configs, facts))
        empty = ClusterImage(cluster_id=self.cluster_id)
        self._first_image = apply(empty, await configs, FIRST_VERSION)
        return self._first_image

    async def _found(self) -> str:
        """Connect, and learn the cluster's id, within `zookeeper.connection.timeout.ms`."""
        settings = self._static.settings
        timeout_ms = settings.zookeeper_connection_timeout_ms or max(
            settings.zookeeper_session_timeout_ms, CONNECTION_TIMEOUT_MS
        )
        slow = self._loop.call_later(
            _SLOW_CONNECT_S, _log.warning, "waiting for ZooKeeper at %s", settings.zookeeper_connect
        )
        proposed = known_cluster_id(self._disk, self._paths) or fresh_cluster_id(self._dice)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while True:
                    try:
                        return await self._found_in_session(proposed)
                    except SessionExpired as error:
                        # On a busy machine a session may expire before it was of any use.
                        _log.warning("%s; trying again with the next session", error)
        except TimeoutError:
            raise StoreUnreachable(
                f"ZooKeeper at {settings.zookeeper_connect} does not answer within {timeout_ms} ms"
            ) from None
        finally:
            slow.cancel()

    async def _found_in_session(self, proposed_id: str) -> str:
        founded: asyncio.Future[str] = self._loop.create_future()

        self._store.found(
            proposed_id,
            then=lambda cluster_id: _resolve(founded, cluster_id),
            otherwise=lambda error: _reject(founded, error),
        )
        return await founded

    def _refuse_directory_of_lone_broker(self) -> None:
        for path in self._paths:
            if self._disk.status(path / local.FILE_NAME) is not None:
                raise WrongLogDirectory(
                    f"{path} belongs to a broker that was alone, whose topics no cluster knows"
                )

    def _replicas(self) -> Replicas:
        self._fetching = Replicas(
            ReplicaTools(
                node_id=self._static.node_id,
                broker_epoch=lambda: self._membership.broker_epoch,
                colleagues=self._colleagues,
                clock=self._clock,
                deadlines=self._deadlines,
                settings=self._static.settings,
            )
        )
        return self._fetching

    def _colleagues_or_none(self) -> BrokerColleagues:
        return self._colleagues

    def _brokers_listener(self) -> str:
        return self._listener

    def _new_standing(self) -> Standing:
        self._membership = Membership(
            static=self._static,
            store=self._store,
            colleagues=self._colleagues,
            vigils=self._vigils if self._is_refusal_fatal() else NoVigils(),
            reception=Reception(
                self._first_image,
                self._told,
                node_id=self._static.node_id,
                trouble=self._partitions.trouble,
            ),
            later=self._later,
            fatal=lambda error: self._broken(str(error)),
        )
        self._member = Member(
            self._static,
            membership=self._membership,
            colleagues=self._colleagues,
            clock=self._clock,
            dice=self._dice,
            later=self._later,
        )
        return self._member

    async def _join(self, registration: Registration) -> None:
        self._colleagues.own_service = self.dispatch
        self._take_up_duties(self._first_image)
        self._keep_house()
        registered: asyncio.Future[None] = self._loop.create_future()
        self._is_joined = True
        self._membership.fatal = lambda error: _reject(registered, error)
        self._membership.register(registration, then=lambda: _resolve(registered, None))
        for facts, version in self._early:
            self._membership.changed(facts, version)
        await registered
        self._membership.fatal = lambda error: self._broken(str(error))

    async def _become_informed(self) -> None:
        while not self._informed.is_set():
            try:
                async with asyncio.timeout(_INFORMED_LOOK_S):
                    await self._informed.wait()
            except TimeoutError:
                _log.warning("no controller has told this broker what there is; it waits")
        self.broker.producer_ids.prepare()

    def _told(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        self._changed(image, facts)
        # That all has been told is known when this has returned.
        self._loop.call_soon(self._look_whether_informed)

    def _look_whether_informed(self) -> None:
        if self._membership.reception.is_informed:
            self._informed.set()

    # Stop.

    async def _take_leave(self) -> None:
        settings = self._static.settings
        # Who is the last one has nobody to hand over to.
        if settings.controlled_shutdown_enable and len(self._standing.image.brokers) > 1:
            await hand_over(
                self._ask_for_shutdown,
                is_connected=lambda: self._keeper.is_connected,
                settings=settings,
            )
        self._membership.close()
        self._fetching.close()

    def _ask_for_shutdown(self, timeout_ms: int, answered: Answered) -> None:
        self._member.ask_controller(
            ControlledShutdownRequest(
                broker_id=self._static.node_id, broker_epoch=self._membership.broker_epoch
            ),
            then=answered,
            otherwise=answered,
            timeout_ms=timeout_ms,
        )

    async def _close_store(self) -> None:
        self._is_joined = False
        self._store.close()
        self._vigils.close()
        self._colleagues.close()
        await asyncio.to_thread(self._keeper.end)

    def _end_session(self) -> None:
        """When a start fails, or once more when all has been closed."""
        self._is_joined = False
        self._store.close()
        self._keeper.end()

    # Else.

    def _is_refusal_fatal(self) -> bool:
        return self._static.settings.headwater_refusing_brokers_fence

    def _broker_epoch(self) -> int:
        return self._membership.broker_epoch

    def _store_failure(self) -> None:
        return None

    def _directory_failed(self) -> None:
        if self._partitions.leave_failed_directories():
            self._store.report_failed_directory(self._static.node_id)

    def _tick(self) -> None:
        self._colleagues.sweep()
        self._vigils.sweep()

    def _later(self, delay_ms: int, work: Callable[[], None]) -> object:
        return self._loop.call_later(delay_ms / 1_000, work)


def _resolve(future: asyncio.Future[T], result: T) -> None:
    """Set a result, unless the waiting was given up."""
    if not future.done():
        future.set_result(result)


def _reject(future: asyncio.Future[T], error: HeadwaterError) -> None:
    if not future.done():
        future.set_exception(error)
