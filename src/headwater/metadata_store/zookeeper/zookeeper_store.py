"""`ClusterStore` on ZooKeeper.

Note: there are two kinds of state. Every broker watches the controller and the configs, and gets
them as changes. Only the controller reads topics and partitions, once, when it takes over
(`controller_term`); from then on only it changes them. Live brokers are also reported to it as
changes, but not applied to its image: the controller decides what they mean.

A session that expires takes the registration, the controllership and all watches with it. The
ZooKeeper client opens a new session by itself, and then everything is watched again. `session_lost`
tells the broker to register again, which waits for a session. A registration may also be removed
alone, when the controller considers this broker dead. It is watched, and `registration_lost`
reports it.
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
from headwater.metadata_store.zookeeper.broker_registration import BrokerRegistering, CallLater
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
    """The store on the event loop's thread: first `listen`, then `create_cluster`."""

    def __init__(
        self,
        zk_client: ZooKeeperClient,
        *,
        clock: Clock,
        call_later: CallLater,
        session_timeout_ms: int,
    ) -> None:
        self._zk_client = zk_client
        self._clock = clock
        self._later = call_later
        self._session_timeout_ms = session_timeout_ms
        self._listener: StoreListener | None = None
        self._cluster_id: str | None = None
        self._last_controller: MetadataChange | None = None
        self._term: ControllerTerm | None = None
        self._controller: NodeWatch | None = None
        self._registering: BrokerRegistering | None = None
        self._registered: NodeWatch | None = None
        self._configs = ConfigCache(
            zk_client, on_change=self._configs_changed, on_error=self._log_error
        )
        self._acls = AclCache(zk_client, on_change=self._notify, on_error=self._log_error)
        zk_client.listen(self)

    def create_cluster(
        self, proposed_id: str, *, then: Callable[[str], None], on_error: Failed
    ) -> None:
        """Create missing znodes; return the cluster id, `proposed_id` if it is new."""

        def founded(cluster_id: str) -> None:
            self._cluster_id = cluster_id
            self._watch_cluster()
            then(cluster_id)

        ClusterSetup(
            zk_client=self._zk_client, proposed_id=proposed_id, then=founded, on_error=on_error
        ).begin()

    # The port.

    def listen(self, listener: StoreListener) -> None:
        self._listener = listener

    def register(
        self, registration: Registration, *, then: Callable[[int], None], on_error: Failed
    ) -> None:
        def registered(epoch: int) -> None:
            then(epoch)
            self._watch_registration(registration.node_id)

        self._leave_registration()
        if self._registering is not None:
            self._registering.abandon()
        self._registering = BrokerRegistering(
            zk_client=self._zk_client,
            registration=registration,
            clock=self._clock,
            call_later=self._later,
            # A left-over session ends within its timeout.
            timeout_ms=2 * self._session_timeout_ms,
            then=registered,
            on_error=on_error,
        )
        self._registering.begin()

    def become_controller(
        self, node_id: NodeId, *, then: Callable[[Version], None], on_error: Failed
    ) -> None:
        def elected(epoch: int, epoch_version: int) -> None:
            assert self._cluster_id is not None
            self._term = ControllerTerm(
                self._zk_client,
                node_id=node_id,
                cluster_id=self._cluster_id,
                epoch=epoch,
                epoch_version=epoch_version,
                on_change=self._notify,
                failed=self._term_failed,
                on_error=self._log_error,
            )
            self._term.begin()
            self._term.purge_notifications(self._clock.now_ms())
            then(self._term.version)

        self._end_term("it stands for election again")
        ControllerElection(
            zk_client=self._zk_client,
            node_id=node_id,
            clock=self._clock,
            then=elected,
            on_error=on_error,
        ).begin()

    def resign(self) -> None:
        if self._term is None:
            return
        self._end_term("it resigned")
        self._leave_control()

    def read(self, *, then: Callable[[ClusterImage], None], on_error: Failed) -> None:
        if self._term is None:
            on_error(ControllerFenced("only the controller may read the full image"))
        else:
            self._term.read(then=then, on_error=on_error)

    def read_configs(self, *, then: Callable[[Sequence[MetadataChange]], None]) -> None:
        self._configs.all(lambda changes: self._acls.all(lambda acls: then([*changes, *acls])))

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        if self._term is None:
            on_error(ControllerFenced("this broker is not the controller"))
        else:
            self._term.write(changes, fence=fence, then=then, on_error=on_error)

    def report_failed_directory(self, node_id: NodeId) -> None:
        def handle_failure(failure: FailedOperation) -> None:
            # If this got lost, this broker would lead partitions forever that it cannot read; a
            # duplicate does no harm. A new session means a new registration, and then the
            # controller asks.
            if failure.problem is ZooKeeperError.UNKNOWN:
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
            on_error=handle_failure,
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

    # `SessionListener`.

    def session_began(self) -> None:
        if self._cluster_id is not None:
            self._watch_cluster()

    def session_ended(self) -> None:
        self._end_term("the ZooKeeper session expired")
        self._leave_registration()
        self._configs.stop()
        self._acls.stop()
        if self._controller is not None:
            self._controller.stop()
            self._controller = None
        if self._listener is not None:
            self._listener.session_lost()

    # Implementation.

    def _watch_cluster(self) -> None:
        self._configs.begin()
        self._acls.begin()
        if self._controller is not None:
            self._controller.stop()
        self._controller = NodeWatch(
            self._zk_client, znode_paths.CONTROLLER, on_change=self._controller_changed
        )
        self._controller.read()

    def _watch_registration(self, node_id: NodeId) -> None:
        self._leave_registration()
        self._registered = NodeWatch(
            self._zk_client, znode_paths.broker(node_id), on_change=self._registration_changed
        )
        self._registered.read()

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
            self._log_error(error)
            return
        # Skip a read without change.
        if change != self._last_controller:
            self._last_controller = change
            self._notify([change])

    def _configs_changed(self, changes: Sequence[MetadataChange]) -> None:
        if self._term is not None:
            self._term.add_configs(changes)
        self._notify(changes)

    def _notify(self, changes: Sequence[MetadataChange]) -> None:
        assert self._listener is not None
        version = FIRST_VERSION if self._term is None else self._term.version
        self._listener.changed(changes, version)

    def _log_error(self, error: HeadwaterError) -> None:
        _log.error("%s", error)

    def _term_failed(self, error: HeadwaterError) -> None:
        """A write failed: this controller's image differs from the znodes."""
        _log.warning("Resigning as controller: reason=%s", error)
        self.resign()

    def _end_term(self, reason: str) -> None:
        term, self._term = self._term, None
        if term is not None:
            term.end(ControllerFenced(f"this broker is not the controller any more: {reason}"))

    def _leave_control(self) -> None:
        self._zk_client.exists(znode_paths.CONTROLLER, then=self._remove_own, on_error=_ignore)

    def _remove_own(self, stat: Stat | None) -> None:
        def handle_failure(failure: FailedOperation) -> None:
            # A left-over controller znode would block elections until the session ends.
            if failure.problem is ZooKeeperError.UNKNOWN and self._term is None:
                self._leave_control()

        if stat is not None and stat.owner == self._zk_client.session_id and self._term is None:
            self._zk_client.multi(
                [Delete(path=znode_paths.CONTROLLER, version=stat.version)],
                then=_pass,
                on_error=handle_failure,
            )


def _pass() -> None: ...


def _ignore(problem: object) -> None:
    """The znode is gone or the session expired."""
