"""Register this broker in the cluster and run the controller while it is elected.

Every broker stands for election whenever there is no controller; the metadata store lets only one
win.

Note: this broker's image and the controller's image are separate, even while this broker is the
controller. The controller's decisions reach this broker as they reach all others, by requests that
it sends to itself.

When the session is lost, registration and controllership are lost with it. The broker keeps serving
the partitions it leads, since other brokers may not have noticed, and registers again; the next
controller decides about its partitions.

A session takes seconds to expire after its process has ended. So the controller watches every
broker, and every broker watches the controller; a broker that refuses connections counts as dead at
once (`liveness`).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from headwater.common.exceptions import (
    ControllerFenced,
    DuplicateBrokerRegistration,
    HeadwaterError,
    StoreUnreachable,
)
from headwater.common.ids import NO_EPOCH, NodeId
from headwater.controller.controller import Controller
from headwater.controller.controller_channel_manager import CallLater
from headwater.metadata.changes import ControllerElected, ControllerGone, MetadataChange
from headwater.metadata.cluster_image import (
    NO_CONTROLLER,
    BrokerRegistration,
    ClusterImage,
    Version,
)
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig
from headwater.metadata.features import of_new_cluster
from headwater.metadata.metadata_cache import MetadataCache
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.metadata.ports.liveness import Liveness, LivenessRole, LivenessWatch
from headwater.metadata.ports.metadata_store import ClusterStore, Registration

_log = logging.getLogger(__name__)

RETRY_MS: Final = 200
"""Backoff before a failed request to the store is retried."""

_FIRST_EPOCH: Final = 1


class ClusterMembership:
    """A `StoreListener`. Only for the loop's thread."""

    def __init__(
        self,
        *,
        static: StaticConfig,
        store: ClusterStore,
        inter_broker_client: InterBrokerClient,
        liveness: Liveness,
        metadata_cache: MetadataCache,
        call_later: CallLater,
        fatal: Callable[[HeadwaterError], None],
    ) -> None:
        """Set the callback for fatal errors.

        `fatal` is called for errors that this broker cannot survive, such as a duplicate broker id.
        """
        self._static = static
        self._store = store
        self._inter_broker_client = inter_broker_client
        self._liveness = liveness
        self._liveness_watch: LivenessWatch | None = None
        self._later = call_later
        self.fatal = fatal
        self.metadata_cache = metadata_cache
        self.controller: Controller | None = None
        self.broker_epoch = NO_EPOCH
        self._registration: Registration | None = None
        self._when_registered: Callable[[], None] = _do_nothing
        self._is_registered = False
        # Number of the latest registration attempt; results of earlier attempts are ignored.
        self._attempt = 0
        self._is_candidate = False
        # Elected, and not deposed since.
        self._has_won = False
        self._is_closed = False
        self._controller_id: NodeId | None = None

    @property
    def node_id(self) -> NodeId:
        return self._static.node_id

    def register(self, registration: Registration, *, then: Callable[[], None]) -> None:
        """Register now and after every loss of the session. `then` is called once."""
        self._registration = registration
        self._when_registered = then
        self._register()

    def close(self) -> None:
        """Resign as controller and take part in no more elections."""
        self._is_closed = True
        self._end_watch()
        if self.controller is not None:
            self.controller.stop()
            self.controller = None
            self._store.resign()

    # `StoreListener`.

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:  # noqa: ARG002
        self.metadata_cache.store_changed(changes)
        if self.controller is not None:
            self.controller.store_changed(changes)
        for change in changes:
            match change:
                case ControllerGone():
                    self._controller_id = NO_CONTROLLER
                    self._end_watch()
                    self._step_down()
                    self._stand_for_election()
                case ControllerElected(node_id):
                    self._controller_id = node_id
                    self._watch(node_id)
                    if node_id != self.node_id:
                        self._step_down()
                case _:
                    pass

    def session_lost(self) -> None:
        _log.warning("Session lost, registering again: node_id=%d", self.node_id)
        self._is_registered = False
        self._is_candidate = False
        self._has_won = False
        if self.controller is not None:
            self.controller.stop()
            self.controller = None
        if self._registration is not None and not self._is_closed:
            self._register()

    def registration_lost(self) -> None:
        if self._is_registered and not self._is_closed:
            _log.warning("Registration lost, registering again: node_id=%d", self.node_id)
            self._is_registered = False
            # An unregistered broker cannot be controller: its own image would lack it.
            self._step_down()
            self._register()

    # Liveness of the controller and of brokers.

    def _watch(self, controller_id: NodeId) -> None:
        """Watch the controller's process, to notice its end before its session expires."""
        self._end_watch()
        if controller_id != self.node_id and not self._is_closed:
            self._liveness_watch = self._liveness.watch(
                controller_id,
                LivenessRole.CONTROL,
                on_refused=lambda: self._controller_ended(controller_id),
            )

    def _end_watch(self) -> None:
        if self._liveness_watch is not None:
            self._liveness_watch.end()
            self._liveness_watch = None

    def _controller_ended(self, controller_id: NodeId) -> None:
        _log.warning("Controller refuses connections: controller_id=%d", controller_id)
        self._store.end_control(controller_id)

    def _broker_ended(self, broker: BrokerRegistration) -> None:
        _log.warning(
            "Broker refuses connections, ending its registration: broker_id=%d", broker.node_id
        )
        self._store.end_registration(broker)

    # Registration.

    def _register(self) -> None:
        """Start a registration, which replaces one in progress.

        An expired session fails the registration in progress and also calls `session_lost`. Only
        the latter starts another registration, or there would be two.
        """
        assert self._registration is not None
        self._attempt += 1
        attempt = self._attempt

        def registered(epoch: int) -> None:
            if self._is_closed or attempt != self._attempt:
                return
            self._is_registered = True
            self.broker_epoch = epoch
            self.metadata_cache.registered(epoch)
            _log.info("Registered: node_id=%d broker_epoch=%d", self.node_id, epoch)
            # The session may have been lost before the first registration completed.
            then, self._when_registered = self._when_registered, _do_nothing
            then()
            self._stand_for_election()

        def failed(error: HeadwaterError) -> None:
            if self._is_closed or attempt != self._attempt:
                return
            if isinstance(error, DuplicateBrokerRegistration):
                self.fatal(error)
            else:
                _log.warning(
                    "Registration failed, retrying: node_id=%d error=%s", self.node_id, error
                )
                self._later(RETRY_MS, retry)

        def retry() -> None:
            if attempt == self._attempt and not self._is_closed:
                self._register()

        self._store.register(self._registration, then=registered, on_error=failed)

    # Elections.

    def _stand_for_election(self) -> None:
        """Stand for election, if there is no controller and this broker is registered."""
        if (
            self._controller_id != NO_CONTROLLER
            or not self._is_registered
            or self._is_candidate
            or self._is_closed
            or self.controller is not None
        ):
            return
        self._is_candidate = True
        self._store.become_controller(self.node_id, then=self._elected, on_error=self._not_elected)

    def _not_elected(self, error: HeadwaterError) -> None:
        self._is_candidate = False
        if not isinstance(error, ControllerFenced):
            _log.warning(
                "Controller election failed, retrying: node_id=%d error=%s", self.node_id, error
            )
            self._later(RETRY_MS, self._stand_for_election)

    def _elected(self, version: Version) -> None:
        _log.info(
            "Elected as controller: node_id=%d controller_epoch=%d",
            self.node_id,
            version.controller_epoch,
        )
        self._has_won = True
        self._store.read(then=self._take_over, on_error=self._could_not_read)

    def _could_not_read(self, error: HeadwaterError) -> None:
        _log.error("Cannot act as controller, resigning: node_id=%d error=%s", self.node_id, error)
        self._is_candidate = False
        if not isinstance(error, ControllerFenced | StoreUnreachable):
            # The stored metadata is unreadable, and an immediate retry would not change that.
            self._later(RETRY_MS, self._store.resign)
        else:
            self._store.resign()
        if not self._has_won:
            # `ControllerGone` has already been delivered and will not be delivered again.
            self._later(RETRY_MS, self._stand_for_election)

    def _take_over(self, image: ClusterImage) -> None:
        self._is_candidate = False
        if self._is_closed or not self._has_won:
            self._store.resign()
            self._stand_for_election()
            return
        self.controller = controller = Controller(
            static=self._static,
            store=self._store,
            inter_broker_client=self._inter_broker_client,
            image=image,
            liveness=self._liveness,
            call_later=self._later,
            on_broker_ended=self._broker_ended,
            on_resigned=self._resigned,
        )
        controller.start()
        if image.version.controller_epoch == _FIRST_EPOCH and not image.features:
            controller.event_queue.submit(
                lambda _: ControllerResult(of_new_cluster(), None), then=_ignore, on_error=_ignore
            )

    def _step_down(self) -> None:
        """Stop acting as controller: another broker was elected, or the znode is gone."""
        self._has_won = False
        if self.controller is not None:
            self.controller.stop()
            self._resigned(ControllerFenced("deposed by another broker"))

    def _resigned(self, error: HeadwaterError) -> None:
        _log.warning("Resigned as controller: node_id=%d reason=%s", self.node_id, error)
        self.controller = None
        self._store.resign()


def _do_nothing() -> None:
    """Initial value of `_when_registered`."""


def _ignore(_: object) -> None:
    """Ignore the result: a failure ends the controller, and the next one repeats it."""
