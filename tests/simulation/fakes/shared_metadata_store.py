"""A metadata store shared by several brokers in one process.

`SharedStore` stands for ZooKeeper, `StoreSession` is one broker's `ClusterStore`. Sessions expire,
responses are delayed or lost. Messages in both directions take random time, in order.

Note: a broker that is cut off does not know whether its session has expired. The store notifies the
others after the timeout, and the broker itself when it is connected again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import ConnectionLost, ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    FeatureFinalized,
    KnownToAll,
    LogDirectoryFailed,
    MetadataChange,
    TopicDeleted,
    apply,
    changes_of,
)
from headwater.metadata.cluster_image import (
    NO_CONTROLLER,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    Version,
)
from headwater.metadata.ports.metadata_store import Failed, Registration, StoreListener
from tests.simulation.fakes.stall import Stall
from tests.simulation.fakes.virtual_time import VirtualTime
from tests.simulation.labs.cluster_lab import CLUSTER_ID

SESSION_TIMEOUT_MS = 6_000
_RETRY_MS = 20


class SharedStore:
    """The committed image, and live sessions."""

    def __init__(self, time: VirtualTime, *, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.time = time
        self.session_timeout_ms = session_timeout_ms
        self.image = ClusterImage(cluster_id=CLUSTER_ID)
        # Sessions of registrations and of the controller. A new session of a broker is another one.
        self._registered: dict[NodeId, object] = {}
        self._controller: tuple[NodeId, object] | None = None
        self._ended: dict[object, None] = {}
        self._zxid = 0
        self._sessions: list[StoreSession] = []

    def session(self, node_id: int, stall: Stall | None = None) -> "StoreSession":
        """A broker's session, for one life of its process."""
        session = StoreSession(self, NodeId(node_id), stall or Stall())
        self._sessions.append(session)
        return session

    # Atomic operations of the store.

    def register(self, token: object, registration: Registration) -> int:
        node_id = registration.node_id
        if self._registered.get(node_id, token) is not token:
            raise ConnectionLost(f"a former session of broker {node_id} still lives")
        if node_id in self._registered:
            # As in ZooKeeper, whose znode exists already.
            return self.image.brokers[node_id].epoch
        self._registered[node_id] = token
        self._zxid += 1
        broker = BrokerRegistration(
            node_id=node_id,
            epoch=self._zxid,
            rack=registration.rack,
            endpoints=registration.endpoints,
        )
        self._note([BrokerRegistered(broker)])
        return self._zxid

    def become_controller(self, token: object, node_id: NodeId) -> Version:
        if self._controller is not None and self._controller != (node_id, token):
            raise ControllerFenced(f"broker {self._controller[0]} is the controller")
        self._controller = (node_id, token)
        version = Version(self.image.version.controller_epoch + 1, 0)
        self.image = replace(self.image, version=version)
        self._note([ControllerElected(node_id)])
        return version

    def write(self, token: object, changes: Sequence[MetadataChange], fence: Version) -> Version:
        if self._controller is None or self._controller[1] is not token:
            raise ControllerFenced("no longer the controller")
        if fence != self.image.version:
            raise ControllerFenced(f"decided on {fence}, and {self.image.version} is the newest")
        broadcast = [each for change in changes for each in self._broadcast_changes(change)]
        version = fence._replace(sequence=fence.sequence + 1)
        self.image = apply(self.image, changes, version)
        self._tell(broadcast)
        return version

    def resign(self, token: object) -> None:
        if self._controller is not None and self._controller[1] is token:
            self._controller = None
            self._note([ControllerGone()])

    def report_failed_directory(self, node_id: NodeId) -> None:
        self._tell([LogDirectoryFailed(node_id)])

    def end_registration(self, token: object, broker: BrokerRegistration) -> None:
        if self._controller is None or self._controller[1] is not token:
            return
        known = self.image.brokers.get(broker.node_id)
        if known is not None and known.epoch == broker.epoch:
            self.unregister(broker.node_id)

    def unregister(self, node_id: NodeId) -> None:
        """A registration ends while its session lives on."""
        owner = self._registered.pop(node_id, None)
        if owner is not None:
            self._note([BrokerGone(node_id)])
            for session in self._sessions:
                session.lost_registration(owner)

    def end_control(self, node_id: NodeId) -> None:
        if self._controller is not None and self._controller[0] == node_id:
            self._controller = None
            self._note([ControllerGone()])

    def end(self, token: object) -> None:
        """A session ended: remove its registration and controllership."""
        self._ended[token] = None
        changes: list[MetadataChange] = []
        if self._controller is not None and self._controller[1] is token:
            self._controller = None
            changes.append(ControllerGone())
        for node_id, owner in list(self._registered.items()):
            if owner is token:
                del self._registered[node_id]
                changes.append(BrokerGone(node_id))
        self._note(changes)

    def has_ended(self, token: object) -> bool:
        return token in self._ended

    def _broadcast_changes(self, change: MetadataChange) -> list[MetadataChange]:
        match change:
            case ConfigsReplaced() | FeatureFinalized() | AclsReplaced():
                return [change]
            case TopicDeleted(name):
                resource = ConfigResource(ResourceType.TOPIC, name)
                return [ConfigsReplaced(resource, {})] if resource in self.image.configs else []
            case _:
                return []

    def _note(self, changes: list[MetadataChange]) -> None:
        self.image = apply(self.image, changes, self.image.version)
        self._tell(changes)

    def _tell(self, changes: list[MetadataChange]) -> None:
        if changes:
            for session in self._sessions:
                session.tell(changes, self.image.version)


class StoreSession:
    """`ClusterStore` of one process. After a lost session it starts another by itself."""

    def __init__(self, store: SharedStore, node_id: NodeId, stall: Stall) -> None:
        self.node_id = node_id
        self._stall = stall
        self._store = store
        self._time = store.time
        self._token = object()
        self._listener: StoreListener | None = None
        self._is_cut = False
        self._cuts = 0
        self._is_dead = False
        self._there_ms = 0
        self._back_ms = 0
        self._missed: list[Callable[[], None]] = []
        self._under_way: dict[object, Failed] = {}

    # Faults.

    def cut(self) -> None:
        """The broker and the store cannot reach each other."""
        self._is_cut = True
        self._cuts += 1
        number, token = self._cuts, self._token

        def over() -> None:
            if self._is_cut and self._cuts == number:
                self._expire(token)

        self._time.after(self._store.session_timeout_ms, over)
        self._fail_all()

    def heal(self) -> None:
        self._is_cut = False
        missed, self._missed = self._missed, []
        for action in missed:
            self._back(action)

    def expire(self) -> None:
        """The store ends the session, and the broker learns it soon."""
        self._expire(self._token)

    def crash(self) -> None:
        """The process ended, and with it all its requests."""
        self._is_dead = True
        token = self._token
        self._time.after(self._store.session_timeout_ms, lambda: self._store.end(token))

    # `ClusterStore`.

    def listen(self, listener: StoreListener) -> None:
        self._listener = listener
        controller_id = self._store.image.controller_id
        is_disconnected = controller_id == NO_CONTROLLER
        change = ControllerGone() if is_disconnected else ControllerElected(controller_id)
        self.tell([change], self._store.image.version)

    def register(
        self, registration: Registration, *, then: Callable[[int], None], on_error: Failed
    ) -> None:
        token = self._token

        def done() -> Callable[[], None]:
            return partial(then, self._store.register(token, registration))

        self._ask(done, on_error)

    def become_controller(
        self, node_id: NodeId, *, then: Callable[[Version], None], on_error: Failed
    ) -> None:
        token = self._token

        def done() -> Callable[[], None]:
            return partial(then, self._store.become_controller(token, node_id))

        self._ask(done, on_error)

    def resign(self) -> None:
        token = self._token

        def done() -> Callable[[], None]:
            self._store.resign(token)
            return _nothing

        def again(_: HeadwaterError) -> None:
            # Not before there is a connection again, and in the same session only.
            if token is self._token and not self._is_dead:
                self._time.after(_RETRY_MS, self.resign)

        self._ask(done, again)

    def read_configs(self, *, then: Callable[[Sequence[MetadataChange]], None]) -> None:
        def done() -> Callable[[], None]:
            found = [
                change for change in changes_of(self._store.image) if isinstance(change, KnownToAll)
            ]
            return partial(then, found)

        def again(_: HeadwaterError) -> None:
            self.read_configs(then=then)

        self._ask(done, again)

    def report_failed_directory(self, node_id: NodeId) -> None:
        token = self._token

        def done() -> Callable[[], None]:
            self._store.report_failed_directory(node_id)
            return _nothing

        def again(_: HeadwaterError) -> None:
            # A new session means a new registration, and then the controller asks.
            if token is self._token and not self._is_dead:
                self._time.after(_RETRY_MS, lambda: self.report_failed_directory(node_id))

        self._ask(done, again)

    def read(self, *, then: Callable[[ClusterImage], None], on_error: Failed) -> None:
        self._ask(lambda: partial(then, self._store.image), on_error)

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        token = self._token

        def done() -> Callable[[], None]:
            return partial(then, self._store.write(token, changes, fence))

        self._ask(done, on_error)

    def end_registration(self, broker: BrokerRegistration) -> None:
        token = self._token
        self._say(lambda: self._store.end_registration(token, broker))

    def end_control(self, node_id: NodeId) -> None:
        self._say(lambda: self._store.end_control(node_id))

    def close(self) -> None:
        self._is_dead = True
        self._store.end(self._token)

    # Between the two.

    def tell(self, changes: Sequence[MetadataChange], version: Version) -> None:
        def notify() -> None:
            if self._listener is not None:
                self._listener.changed(changes, version)

        self._back(notify)

    def lost_registration(self, token: object) -> None:
        def notify() -> None:
            if self._listener is not None and token is self._token:
                self._listener.registration_lost()

        if token is self._token:
            self._back(notify)

    def _say(self, done: Callable[[], None]) -> None:
        """A request without a response, which may be lost."""

        def said() -> Callable[[], None]:
            done()
            return _nothing

        self._ask(said, _ignore)

    def _ask(self, done: Callable[[], Callable[[], None]], on_error: Failed) -> None:
        """`done` runs at the store and returns what then runs here."""
        key, token = object(), self._token
        self._under_way[key] = on_error

        def arrive() -> None:
            if self._is_cut or self._store.has_ended(token):
                return
            try:
                answer = done()
            except HeadwaterError as error:
                answer = partial(on_error, error)
            self._back(partial(self._end, key, answer))

        if self._is_cut:
            self._fail(key, on_error)
            return
        self._there_ms = max(self._there_ms, self._time.now_ms + self._delay_ms())
        self._time.after(self._there_ms - self._time.now_ms, arrive)

    def _end(self, key: object, answer: Callable[[], None]) -> None:
        if self._under_way.pop(key, None) is not None and not self._is_dead:
            answer()

    def _back(self, action: Callable[[], None]) -> None:
        self._back_ms = max(self._back_ms, self._time.now_ms + self._delay_ms())

        def arrive() -> None:
            if self._is_cut:
                self._missed.append(action)
            else:
                self._stall.pass_on(partial(self._deliver, action))

        self._time.after(self._back_ms - self._time.now_ms, arrive)

    def _deliver(self, action: Callable[[], None]) -> None:
        if not self._is_dead:
            action()

    def _fail_all(self) -> None:
        for key, on_error in list(self._under_way.items()):
            self._fail(key, on_error)

    def _fail(self, key: object, on_error: Failed) -> None:
        end = partial(self._end, key, partial(on_error, _lost()))
        self._time.after(1, partial(self._stall.pass_on, end))

    def _expire(self, token: object) -> None:
        if token is not self._token or self._is_dead:
            return
        self._store.end(token)
        self._token = object()
        self._fail_all()

        def lost() -> None:
            if self._listener is not None:
                self._listener.session_lost()

        self._back(lost)

    def _delay_ms(self) -> int:
        return self._time.rand.randint(1, 5)


def _lost() -> ConnectionLost:
    return ConnectionLost("the store does not answer")


def _nothing() -> None:
    """No response to wait for."""


def _ignore(_: HeadwaterError) -> None:
    """The session times out."""
