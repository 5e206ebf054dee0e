"""Send LeaderAndIsr, UpdateMetadata and StopReplica to brokers.

Each registered broker has a channel. A channel sends in rounds: a round is built at one moment from
one image, UpdateMetadata first, then LeaderAndIsr, then StopReplica, each only if needed. Later
changes go into the next round. A round that fails is dropped and built again.

Requests are numbered: one that timed out may still arrive by another connection, after later ones,
and the broker then rejects it.

Note: a channel is no queue of requests. A newer state of a partition replaces an older one, so an
unreachable broker costs no more than one entry per partition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage, TopicImage
from headwater.metadata.control_requests import (
    FULL,
    INCREMENTAL,
    ControlRequestBatch,
    ReplicaStop,
    all_metadata_states,
    control_request_batch,
    live_brokers,
    metadata_states,
    role_states,
    stop_states,
)
from headwater.metadata.ports.inter_broker_client import InterBrokerClient, Purpose
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from headwater.protocol.messages.update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)
from headwater.protocol.older_versions import Message

RETRY_MS: Final = 100
"""Delay before a failed round is sent again."""

LARGEST_BACKLOG: Final = 10_000
"""Maximum of partitions to send incrementally; with more, the full state is sent."""

CallLater = Callable[[int, Callable[[], None]], object]
"""Calls a function once, after a number of milliseconds."""

Names = Mapping[TopicPartition, None]
ControlRequest = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest


class ChannelOwner(Protocol):
    """What channels share: the sender of requests and the handler of responses."""

    node_id: NodeId
    inter_broker_client: InterBrokerClient
    call_later: CallLater
    timeout_ms: int

    @property
    def image(self) -> ClusterImage:
        """The committed cluster image."""

    def held_by(self, node_id: NodeId) -> Iterable[TopicPartition]: ...

    def on_response(
        self, channel: "ControllerChannel", request: ControlRequest, response: Message
    ) -> None:
        """A broker accepted a request as a whole."""

    def on_deposed(self) -> None:
        """A broker has seen a later controller epoch."""


@dataclass(slots=True)
class PendingUpdates:
    """Changes that wait to be sent to one broker.

    Partition names stay in the lists they came in, since all brokers share these.
    """

    is_full: bool = False
    has_brokers: bool = False
    metadata: list[Names] = field(default_factory=list)
    deleted: dict[str, TopicImage] = field(default_factory=dict)
    roles: dict[TopicPartition, bool] = field(default_factory=dict)
    stops: dict[TopicPartition, ReplicaStop] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(
            self.is_full
            or self.has_brokers
            or self.metadata
            or self.deleted
            or self.roles
            or self.stops
        )

    def add(self, changes: ControlRequestBatch, node_id: NodeId) -> None:
        self.has_brokers = self.has_brokers or changes.has_brokers
        self.deleted.update(changes.deleted)
        for name, is_new in changes.roles.get(node_id, {}).items():
            self.stops.pop(name, None)
            self.roles[name] = is_new or self.roles.get(name, False)
        for name, stop in changes.stops.get(node_id, {}).items():
            self.roles.pop(name, None)
            self.stops[name] = stop
        if changes.metadata and not self.is_full:
            self.metadata.append(changes.metadata)
            if len(self.metadata) > 1 and sum(map(len, self.metadata)) > LARGEST_BACKLOG:
                self.add_full_update()

    def add_full_update(self) -> None:
        self.is_full = True
        self.metadata.clear()

    def add_failed(self, failed: "PendingUpdates") -> None:
        """Add a failed round again, without replacing newer changes."""
        self.has_brokers = self.has_brokers or failed.has_brokers
        self.deleted = {**failed.deleted, **self.deleted}
        for name, is_new in failed.roles.items():
            if name not in self.stops:
                self.roles[name] = is_new or self.roles.get(name, False)
        for name, stop in failed.stops.items():
            if name not in self.roles:
                self.stops.setdefault(name, stop)
        if failed.is_full:
            self.add_full_update()
        elif not self.is_full:
            self.metadata[:0] = failed.metadata

    def names(self) -> Names:
        """Return the partitions to send to every broker; one shared object if possible."""
        if len(self.metadata) == 1:
            return self.metadata[0]
        return {name: None for each in self.metadata for name in each}


class MetadataStates:
    """Cache of the topic states in UpdateMetadata, which are the same for all brokers."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._names: Names | None = None
        self._states: tuple[UpdateMetadataTopicState, ...] = ()

    def of(
        self, image: ClusterImage, pending: PendingUpdates
    ) -> tuple[UpdateMetadataTopicState, ...]:
        names = None if pending.is_full else pending.names()
        if self._image is not image or self._names is not names:
            self._image, self._names = image, names
            self._states = (
                all_metadata_states(image) if names is None else metadata_states(image, names, ())
            )
        if pending.is_full:
            return self._states
        # A deleted topic is not sent if a new topic of that name exists: that one replaces it.
        deleted = [each for each in pending.deleted.values() if _is_deleted(image, each.name)]
        return metadata_states(image, (), deleted) + self._states


def _is_deleted(image: ClusterImage, name: str) -> bool:
    topic = image.topics.get(name)
    return topic is None or topic.is_deleting


class ControllerChannel:
    """Sends requests to one registration of a broker until `close`."""

    def __init__(
        self, broker: BrokerRegistration, sender: ChannelOwner, states: MetadataStates
    ) -> None:
        self.broker = broker
        self._sender = sender
        self._states = states
        self._pending = PendingUpdates()
        # The round in flight, and its requests that have not been sent yet.
        self._round: PendingUpdates | None = None
        self._requests: list[ControlRequest] = []
        self._order = 0
        self._is_waiting = False
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether the broker has answered everything."""
        return not self._pending and self._round is None

    def send_changes(self, changes: ControlRequestBatch) -> None:
        self._pending.add(changes, self.broker.node_id)
        self._start_round()

    def send_full_update(self) -> None:
        self._pending.add_full_update()
        self._start_round()

    def send_leader_and_isr(self) -> None:
        """Send LeaderAndIsr for all partitions of the broker; it reports offline ones."""
        for name in self._sender.held_by(self.broker.node_id):
            self._pending.roles.setdefault(name, False)
        self._start_round()

    def stop(self, stops: Mapping[TopicPartition, ReplicaStop]) -> None:
        """Send StopReplica for replicas that have no other changes."""
        self._pending.add(
            ControlRequestBatch(stops={self.broker.node_id: dict(stops)}), self.broker.node_id
        )
        self._start_round()

    def close(self) -> None:
        """Stop sending: the broker is deleted, or another controller took over."""
        self._is_closed = True

    def _start_round(self) -> None:
        if self._round is not None or self._is_waiting or self._is_closed or not self._pending:
            return
        self._round, self._pending = self._pending, PendingUpdates()
        self._requests = self._build_requests(self._round)
        self._send_next()

    def _build_requests(self, pending: PendingUpdates) -> list[ControlRequest]:
        image, node_id = self._sender.image, self.broker.node_id
        requests: list[ControlRequest] = []
        if pending.is_full or pending.has_brokers or pending.metadata or pending.deleted:
            requests.append(
                UpdateMetadataRequest(
                    controller_id=self._sender.node_id,
                    controller_epoch=image.version.controller_epoch,
                    broker_epoch=self.broker.epoch,
                    type=FULL if pending.is_full else INCREMENTAL,
                    topic_states=self._states.of(image, pending),
                    live_brokers=live_brokers(image.brokers),
                )
            )
        roles: Mapping[TopicPartition, bool] = pending.roles
        if pending.is_full:
            held = self._sender.held_by(node_id)
            roles = {name: pending.roles.get(name, False) for name in held}
        states = role_states(image, node_id, roles)
        if states or pending.is_full:
            requests.append(
                LeaderAndIsrRequest(
                    controller_id=self._sender.node_id,
                    controller_epoch=image.version.controller_epoch,
                    broker_epoch=self.broker.epoch,
                    type=FULL if pending.is_full else INCREMENTAL,
                    topic_states=states,
                )
            )
        if pending.stops:
            requests.append(
                StopReplicaRequest(
                    controller_id=self._sender.node_id,
                    controller_epoch=image.version.controller_epoch,
                    broker_epoch=self.broker.epoch,
                    topic_states=stop_states(pending.stops),
                )
            )
        return requests

    def _send_next(self) -> None:
        if self._is_closed:
            return
        if not self._requests:
            self._round = None
            self._start_round()
            return
        self._order += 1
        request = replace(self._requests.pop(0), order=self._order)
        self._sender.inter_broker_client.send_request(
            self.broker.node_id,
            request,
            purpose=Purpose.CONTROL,
            timeout_ms=self._sender.timeout_ms,
            then=partial(self._handle_response, request),
            on_error=self._handle_failure,
        )

    def _handle_response(self, request: ControlRequest, response: Message) -> None:
        if self._is_closed:
            return
        assert isinstance(
            response, UpdateMetadataResponse | LeaderAndIsrResponse | StopReplicaResponse
        )
        match response.error_code:
            case ErrorCode.NONE:
                self._sender.on_response(self, request, response)
                self._send_next()
            case ErrorCode.STALE_BROKER_EPOCH:
                # The broker registered again; the store reports that, and a new channel is opened.
                self.close()
            case ErrorCode.STALE_CONTROLLER_EPOCH:
                self.close()
                self._sender.on_deposed()
            case _:
                self._retry()

    def _handle_failure(self, _: HeadwaterError) -> None:
        if not self._is_closed:
            self._retry()

    def _retry(self) -> None:
        assert self._round is not None
        self._pending.add_failed(self._round)
        self._round = None
        self._is_waiting = True
        self._sender.call_later(RETRY_MS, self._wake)

    def _wake(self) -> None:
        self._is_waiting = False
        self._start_round()


class ControllerChannels(Protocol):
    """How brokers learn what the controller has decided."""

    @property
    def are_idle(self) -> bool:
        """Whether every broker has answered everything."""

    @property
    def must_delete_replicas(self) -> bool:
        """Whether brokers delete a topic's replicas only when they are told to."""

    def __contains__(self, broker: BrokerRegistration) -> bool:
        """Return whether there is a channel to this registration."""

    def get(self, node_id: NodeId) -> ControllerChannel | None: ...

    def open(self, broker: BrokerRegistration) -> ControllerChannel: ...

    def handle_written(
        self, before: ClusterImage, image: ClusterImage, changes: Sequence[MetadataChange]
    ) -> None:
        """Changes were written; tell the brokers."""

    def close(self, node_id: NodeId) -> None: ...

    def close_all(self) -> None: ...


class NoControllerChannels:
    """No requests: in a KRaft cluster, brokers replay the metadata log."""

    are_idle = True
    must_delete_replicas = False

    def __contains__(self, broker: BrokerRegistration) -> bool:
        return True

    def get(self, node_id: NodeId) -> None:
        """No broker has a channel."""

    def open(self, broker: BrokerRegistration) -> ControllerChannel:
        raise AssertionError(f"broker {broker.node_id} replays the metadata log")

    def handle_written(
        self, before: ClusterImage, image: ClusterImage, changes: Sequence[MetadataChange]
    ) -> None:
        """Brokers fetch the records."""

    def close(self, node_id: NodeId) -> None:
        """Nothing to close."""

    def close_all(self) -> None:
        """Nothing to close."""


class ControllerChannelManager:
    """The channels of all live brokers; implements `ChannelOwner`."""

    must_delete_replicas = True

    def __init__(
        self,
        *,
        node_id: NodeId,
        inter_broker_client: InterBrokerClient,
        call_later: CallLater,
        timeout_ms: int,
        image: Callable[[], ClusterImage],
        held_by: Callable[[NodeId], Iterable[TopicPartition]],
        on_response: Callable[[ControllerChannel, ControlRequest, Message], None],
        on_deposed: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.inter_broker_client = inter_broker_client
        self.call_later = call_later
        self.timeout_ms = timeout_ms
        self.held_by = held_by
        self.on_response = on_response
        self.on_deposed = on_deposed
        self._image = image
        self._states = MetadataStates()
        self._by_node: dict[NodeId, ControllerChannel] = {}

    @property
    def image(self) -> ClusterImage:
        return self._image()

    @property
    def are_idle(self) -> bool:
        """Whether every broker has answered everything."""
        return all(each.is_idle for each in self._by_node.values())

    def __contains__(self, broker: BrokerRegistration) -> bool:
        """Return whether there is a channel to this registration."""
        channel = self._by_node.get(broker.node_id)
        return channel is not None and channel.broker.epoch == broker.epoch

    def get(self, node_id: NodeId) -> ControllerChannel | None:
        return self._by_node.get(node_id)

    def open(self, broker: BrokerRegistration) -> ControllerChannel:
        """Open a channel and send the full state, then every change."""
        assert broker.node_id not in self._by_node, (
            "the channel to the former registration is still open"
        )
        channel = self._by_node[broker.node_id] = ControllerChannel(broker, self, self._states)
        channel.send_full_update()
        return channel

    def handle_written(
        self, before: ClusterImage, image: ClusterImage, changes: Sequence[MetadataChange]
    ) -> None:
        self.send_changes(control_request_batch(before, image, changes))

    def send_changes(self, changes: ControlRequestBatch) -> None:
        if (
            changes.has_brokers
            or changes.metadata
            or changes.deleted
            or changes.roles
            or changes.stops
        ):
            for channel in self._by_node.values():
                channel.send_changes(changes)

    def close(self, node_id: NodeId) -> None:
        channel = self._by_node.pop(node_id, None)
        if channel is not None:
            channel.close()

    def close_all(self) -> None:
        for node_id in list(self._by_node):
            self.close(node_id)
