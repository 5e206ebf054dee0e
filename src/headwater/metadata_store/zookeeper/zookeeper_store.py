"""`ClusterStore` on ZooKeeper.

What a reader would get wrong: there are two kinds of knowledge here. Every broker follows who
controls and what is configured, and hears of it as facts. Only the controller reads topics and
partitions, once, when it takes over (`term`); from then on it is the only one who changes them, and
its own writes are all there is to know. Who is up it is told as facts too, but they are news and
not yet part of its image: what a broker's coming means is the controller's to decide.

A session that ends takes the registration, the controllership and all watches with it. The keeper
finds another one by itself; then everything is followed anew. `session_lost` tells the broker to
register again, which waits until there is a session. A registration may also go alone: whoever
controls may have taken this broker for dead. It is followed, and `registration_lost` tells.
"""

import logging
from collections.abc import Callable, Sequence

from headwater.common.exceptions import ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId
from headwater.common.ports import Clock
from headwater.metadata.changes import ControllerElected, ControllerGone, MetadataChange
from headwater.metadata.cluster_image import (
    FIRST_VERSION,
    BrokerRegistration,
    ClusterImage,
    Version,
)
from headwater.metadata.ports.metadata_store import Failed, Registration, StoreListener
from headwater.metadata_store.zookeeper import znode_data, znode_paths
from headwater.metadata_store.zookeeper.acl_cache import AclCache
from headwater.metadata_store.zookeeper.broker_registration import BrokerRegistering, Later
from headwater.metadata_store.zookeeper.cluster_setup import ClusterSetup
from headwater.metadata_store.zookeeper.config_cache import ConfigCache
from headwater.metadata_store.zookeeper.controller_election import ControllerElection
from headwater.metadata_store.zookeeper.controller_term import ControllerTerm
from headwater.metadata_store.zookeeper.stale_registrations import end_control
from headwater.metadata_store.zookeeper.znode_watches import NodeWatch
from headwater.metadata_store.zookeeper.zookeeper_client import (
    Create,
    Delete,
    FailedOperation,
    Stat,
    ZooKeeperClient,
    ZooKeeperError,
)

_log = logging.getLogger(__name__)


class ZooKeeperStore:
    """See the module. For the loop's thread only. `listen` first, then `found`, then the rest."""

    def __init__(
        self, zk_client: ZooKeeperClient, *, clock: Clock, later: Later, session_timeout_ms: int
    ) -> None:
        self._zk_client = zk_client
        self._clock = clock
        self._later = later
        self._session_timeout_ms = session_timeout_ms
        self._listener: StoreListener | None = None
        self._cluster_id: str | None = None
        self._told_controller: MetadataChange | None = None
        self._term: ControllerTerm | None = None
        self._controller: NodeWatch | None = None
        self._registering: BrokerRegistering | None = None
        self._registered: NodeWatch | None = None
        self._configs = ConfigCache(
            zk_client, told=self._configs_changed, complained=self._complain
        )
        self._acls = AclCache(zk_client, told=self._tell, complained=self._complain)
        zk_client.listen(self)

    def found(self, proposed_id: str, *, then: Callable[[str], None], otherwise: Failed) -> None:
        """Make what has to be there, and learn the cluster's id; a new cluster gets this one."""

        def founded(cluster_id: str) -> None:
            self._cluster_id = cluster_id
            self._follow()
            then(cluster_id)

        ClusterSetup(
            zk_client=self._zk_client, proposed_id=proposed_id, then=founded, otherwise=otherwise
        ).begin()

    # The port.

    def listen(self, listener: StoreListener) -> None:
        self._listener = listener

    def register(
        self, registration: Registration, *, then: Callable[[int], None], otherwise: Failed
    ) -> None:
        def registered(epoch: int) -> None:
            then(epoch)
            self._follow_registration(registration.node_id)

        self._leave_registration()
        if self._registering is not None:
            self._registering.abandon()
        self._registering = BrokerRegistering(
            zk_client=self._zk_client,
            registration=registration,
            clock=self._clock,
            later=self._later,
            # A session that is left over ends within its own timeout and a little.
            patience_ms=2 * self._session_timeout_ms,
            then=registered,
            otherwise=otherwise,
        )
        self._registering.begin()

    def become_controller(
        self, node_id: NodeId, *, then: Callable[[Version], None], otherwise: Failed
    ) -> None:
        def elected(epoch: int, epoch_version: int) -> None:
            assert self._cluster_id is not None
            self._term = ControllerTerm(
                self._zk_client,
                node_id=node_id,
                cluster_id=self._cluster_id,
                epoch=epoch,
                epoch_version=epoch_version,
                told=self._tell,
                failed=self._term_failed,
                complained=self._complain,
            )
            self._term.begin()
            self._term.purge_notes(self._clock.now_ms())
            then(self._term.version)

        self._end_term("a new election")
        ControllerElection(
            zk_client=self._zk_client,
            node_id=node_id,
            clock=self._clock,
            then=elected,
            otherwise=otherwise,
        ).begin()

    def resign(self) -> None:
        if self._term is None:
            return
        self._end_term("it has resigned")
        self._leave_control()

    def read(self, *, then: Callable[[ClusterImage], None], otherwise: Failed) -> None:
        if self._term is None:
            otherwise(ControllerFenced("only the controller reads everything"))
        else:
            self._term.read(then=then, otherwise=otherwise)

    def read_configs(self, *, then: Callable[[Sequence[MetadataChange]], None]) -> None:
        self._configs.all(lambda changes: self._acls.all(lambda acls: then([*changes, *acls])))

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        otherwise: Failed,
    ) -> None:
        if self._term is None:
            otherwise(ControllerFenced("this broker is not the controller"))
        else:
            self._term.write(changes, fence=fence, then=then, otherwise=otherwise)

    def report_failed_directory(self, node_id: NodeId) -> None:
        def refused(refusal: FailedOperation) -> None:
            # Unheard, this broker would lead for ever what it cannot read; to say it twice is fine.
            # With another session comes another registration, and then the controller asks.
            if refusal.problem is ZooKeeperError.UNKNOWN:
                self.report_failed_directory(node_id)

        self._zk_client.multi(
            [
                Create(
                    path=znode_paths.DIRECTORY_EVENT_PREFIX,
                    data=znode_data.directory_event(node_id),
                    is_sequential=True,
                )
            ],
            then=_pass,
            otherwise=refused,
        )

    def end_registration(self, broker: BrokerRegistration) -> None:
        if self._term is not None:
            self._term.end_registration(broker)

    def end_control(self, node_id: NodeId) -> None:
        end_control(self._zk_client, node_id)

    def close(self) -> None:
        self._end_term("the store is closed")
        self._leave_registration()
        self._configs.stop()
        self._acls.stop()
        if self._controller is not None:
            self._controller.stop()
        self._zk_client.close()

    # What the keeper tells.

    def session_began(self) -> None:
        if self._cluster_id is not None:
            self._follow()

    def session_ended(self) -> None:
        self._end_term("the session with ZooKeeper is over")
        self._leave_registration()
        self._configs.stop()
        self._acls.stop()
        if self._controller is not None:
            self._controller.stop()
            self._controller = None
        if self._listener is not None:
            self._listener.session_lost()

    # How it is done.

    def _follow(self) -> None:
        self._configs.begin()
        self._acls.begin()
        if self._controller is not None:
            self._controller.stop()
        self._controller = NodeWatch(
            self._zk_client, znode_paths.CONTROLLER, told=self._controller_changed
        )
        self._controller.look()

    def _follow_registration(self, node_id: NodeId) -> None:
        self._leave_registration()
        self._registered = NodeWatch(
            self._zk_client, znode_paths.broker(node_id), told=self._registration_changed
        )
        self._registered.look()

    def _leave_registration(self) -> None:
        if self._registered is not None:
            self._registered.stop()
            self._registered = None

    def _registration_changed(self, data: bytes | None) -> None:
        if data is None:
            self._leave_registration()
            assert self._listener is not None
            self._listener.registration_lost()

    def _controller_changed(self, data: bytes | None) -> None:
        change: MetadataChange
        try:
            change = (
                ControllerGone()
                if data is None
                else ControllerElected(znode_data.read_controller(data))
            )
        except HeadwaterError as error:
            self._complain(error)
            return
        # A look that finds the same as the last one is no news.
        if change != self._told_controller:
            self._told_controller = change
            self._tell([change])

    def _configs_changed(self, changes: Sequence[MetadataChange]) -> None:
        if self._term is not None:
            self._term.note_configs(changes)
        self._tell(changes)

    def _tell(self, changes: Sequence[MetadataChange]) -> None:
        assert self._listener is not None
        version = FIRST_VERSION if self._term is None else self._term.version
        self._listener.changed(changes, version)

    def _complain(self, error: HeadwaterError) -> None:
        _log.error("%s", error)

    def _term_failed(self, error: HeadwaterError) -> None:
        """A write was refused: what this controller knows is not what is there."""
        _log.warning("no longer the controller: %s", error)
        self.resign()

    def _end_term(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            term.end(ControllerFenced(f"this broker is not the controller any more: {reason}"))

    def _leave_control(self) -> None:
        self._zk_client.exists(znode_paths.CONTROLLER, then=self._remove_own, otherwise=_ignore)

    def _remove_own(self, stat: Stat | None) -> None:
        def refused(refusal: FailedOperation) -> None:
            # A node that stays as long as the session does would keep others from control.
            if refusal.problem is ZooKeeperError.UNKNOWN and self._term is None:
                self._leave_control()

        if stat is not None and stat.owner == self._zk_client.session_id and self._term is None:
            self._zk_client.multi(
                [Delete(path=znode_paths.CONTROLLER, version=stat.version)],
                then=_pass,
                otherwise=refused,
            )


def _pass() -> None:
    """Nothing is left to do."""


def _ignore(problem: object) -> None:
    """It is not there any more, or the session is over: both will do."""
