"""Send LeaderAndIsr, UpdateMetadata and StopReplica to brokers: Kafka's ControllerChannelManager.

Each broker has a channel, for one registration. A channel sends in rounds: a round is built at one
moment from one image, UpdateMetadata first, then LeaderAndIsr, then StopReplica, each only if
needed. What changes meanwhile belongs to the next round. A round that fails is dropped and built
again.

Requests are numbered: one that timed out may still arrive by another connection, after later ones,
and the broker then rejects it.

Note: a channel is no queue of requests. A newer state of a partition replaces an older one, so a
broker that cannot be reached costs no more than one mark per partition.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol

from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.metadata.cluster_image import BrokerRegistration, ClusterImage, TopicImage
from headwater.metadata.control_requests import (
    FULL,
    INCREMENTAL,
    ControlRequestBatch,
    ReplicaStop,
    all_metadata_states,
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
"""How long a broker that could not be told is left alone."""

LARGEST_BACKLOG: Final = 10_000
"""Partitions that may be named one by one; instead of more, everything is told."""

Later = Callable[[int, Callable[[], None]], object]
"""Runs something once, after so many milliseconds."""

Names = Mapping[TopicPartition, None]
Order = UpdateMetadataRequest | LeaderAndIsrRequest | StopReplicaRequest


class ChannelOwner(Protocol):
    """What outboxes share: whose words they carry, and who hears the answers."""

    node_id: NodeId
    inter_broker_client: InterBrokerClient
    later: Later
    timeout_ms: int

    @property
    def image(self) -> ClusterImage:
        """What the cluster has agreed on."""

    def held_by(self, node_id: NodeId) -> Iterable[TopicPartition]: ...

    def heard(
        self, controller_channel: "ControllerChannel", request: Order, response: Message
    ) -> None:
        """A broker has taken a request, as a whole."""

    def deposed(self) -> None:
        """A broker knows a later controller."""


@dataclass(slots=True)
class PendingUpdates:
    """News that has come together for one broker.

    Metadata is kept as it came, since all brokers share it.
    """

    is_everything: bool = False
    has_brokers: bool = False
    metadata: list[Names] = field(default_factory=list)
    gone: dict[str, TopicImage] = field(default_factory=dict)
    roles: dict[TopicPartition, bool] = field(default_factory=dict)
    stops: dict[TopicPartition, ReplicaStop] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(
            self.is_everything
            or self.has_brokers
            or self.metadata
            or self.gone
            or self.roles
            or self.stops
        )

    def add(self, news: ControlRequestBatch, node_id: NodeId) -> None:
        self.has_brokers = self.has_brokers or news.has_brokers
        self.gone.update(news.gone)
        for name, is_new in news.roles.get(node_id, {}).items():
            self.stops.pop(name, None)
            self.roles[name] = is_new or self.roles.get(name, False)
        for name, stop in news.stops.get(node_id, {}).items():
            self.roles.pop(name, None)
            self.stops[name] = stop
        if news.metadata and not self.is_everything:
            self.metadata.append(news.metadata)
            if len(self.metadata) > 1 and sum(map(len, self.metadata)) > LARGEST_BACKLOG:
                self.add_everything()

    def add_everything(self) -> None:
        self.is_everything = True
        self.metadata.clear()

    def add_failed(self, failed: "PendingUpdates") -> None:
        """Say again what was not heard, unless something newer is to be said."""
        self.has_brokers = self.has_brokers or failed.has_brokers
        self.gone = {**failed.gone, **self.gone}
        for name, is_new in failed.roles.items():
            if name not in self.stops:
                self.roles[name] = is_new or self.roles.get(name, False)
        for name, stop in failed.stops.items():
            if name not in self.roles:
                self.stops.setdefault(name, stop)
        if failed.is_everything:
            self.add_everything()
        elif not self.is_everything:
            self.metadata[:0] = failed.metadata

    def names(self) -> Names:
        """The partitions of which everybody hears; the same object for all brokers, if it can."""
        if len(self.metadata) == 1:
            return self.metadata[0]
        return {name: None for each in self.metadata for name in each}


class MetadataStates:
    """The greater part of UpdateMetadata, which is the same for all brokers: kept for the next."""

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._names: Names | None = None
        self._states: tuple[UpdateMetadataTopicState, ...] = ()

    def of(
        self, image: ClusterImage, untold: PendingUpdates
    ) -> tuple[UpdateMetadataTopicState, ...]:
        names = None if untold.is_everything else untold.names()
        if self._image is not image or self._names is not names:
            self._image, self._names = image, names
            self._states = (
                all_metadata_states(image) if names is None else metadata_states(image, names, ())
            )
        if untold.is_everything:
            return self._states
        # The end of a topic is not told beside its namesake's beginning, from which it follows.
        gone = [each for each in untold.gone.values() if _is_gone(image, each.name)]
        return metadata_states(image, (), gone) + self._states


def _is_gone(image: ClusterImage, name: str) -> bool:
    topic = image.topics.get(name)
    return topic is None or topic.is_deleting


class ControllerChannel:
    """Tells one broker, under one registration of it, until `close`."""

    def __init__(
        self, broker: BrokerRegistration, sender: ChannelOwner, states: MetadataStates
    ) -> None:
        self.broker = broker
        self._sender = sender
        self._states = states
        self._untold = PendingUpdates()
        # The round under way, and what of it has not been sent yet.
        self._round: PendingUpdates | None = None
        self._requests: list[Order] = []
        self._order = 0
        self._is_waiting = False
        self._is_closed = False

    @property
    def is_idle(self) -> bool:
        """Whether the broker has heard everything."""
        return not self._untold and self._round is None

    def tell(self, news: ControlRequestBatch) -> None:
        self._untold.add(news, self.broker.node_id)
        self._begin()

    def tell_everything(self) -> None:
        self._untold.add_everything()
        self._begin()

    def tell_roles(self) -> None:
        """What the broker is to each of its partitions, so that it says which it cannot serve."""
        for name in self._sender.held_by(self.broker.node_id):
            self._untold.roles.setdefault(name, False)
        self._begin()

    def stop(self, stops: Mapping[TopicPartition, ReplicaStop]) -> None:
        """Have replicas stopped, of which there is no other news."""
        self._untold.add(
            ControlRequestBatch(stops={self.broker.node_id: dict(stops)}), self.broker.node_id
        )
        self._begin()

    def close(self) -> None:
        """The broker is gone, or another controller speaks to it."""
        self._is_closed = True

    def _begin(self) -> None:
        if self._round is not None or self._is_waiting or self._is_closed or not self._untold:
            return
        self._round, self._untold = self._untold, PendingUpdates()
        self._requests = self._written(self._round)
        self._go_on()

    def _written(self, untold: PendingUpdates) -> list[Order]:
        image, node_id = self._sender.image, self.broker.node_id
        requests: list[Order] = []
        if untold.is_everything or untold.has_brokers or untold.metadata or untold.gone:
            requests.append(
                UpdateMetadataRequest(
                    controller_id=self._sender.node_id,
                    controller_epoch=image.version.controller_epoch,
                    broker_epoch=self.broker.epoch,
                    type=FULL if untold.is_everything else INCREMENTAL,
                    topic_states=self._states.of(image, untold),
                    live_brokers=live_brokers(image.brokers),
                )
            )
        roles: Mapping[TopicPartition, bool] = untold.roles
        if untold.is_everything:
            held = self._sender.held_by(node_id)
            roles = {name: untold.roles.get(name, False) for name in held}
        states = role_states(image, node_id, roles)
        if states or untold.is_everything:
            requests.append(
                LeaderAndIsrRequest(
                    controller_id=self._sender.node_id,
                    controller_epoch=image.version.controller_epoch,
                    broker_epoch=self.broker.epoch,
                    type=FULL if untold.is_everything else INCREMENTAL,
                    topic_states=states,
                )
            )
        if untold.stops:
            requests.append(
                StopReplicaRequest(
                    controller_id=self._sender.node_id,
                    controller_epoch=image.version.controller_epoch,
                    broker_epoch=self.broker.epoch,
                    topic_states=stop_states(untold.stops),
                )
            )
        return requests

    def _go_on(self) -> None:
        if self._is_closed:
            return
        if not self._requests:
            self._round = None
            self._begin()
            return
        self._order += 1
        request = replace(self._requests.pop(0), order=self._order)
        self._sender.inter_broker_client.ask(
            self.broker.node_id,
            request,
            purpose=Purpose.CONTROL,
            timeout_ms=self._sender.timeout_ms,
            then=partial(self._answered, request),
            otherwise=self._failed,
        )

    def _answered(self, request: Order, response: Message) -> None:
        if self._is_closed:
            return
        assert isinstance(
            response, UpdateMetadataResponse | LeaderAndIsrResponse | StopReplicaResponse
        )
        match response.error_code:
            case ErrorCode.NONE:
                self._sender.heard(self, request, response)
                self._go_on()
            case ErrorCode.STALE_BROKER_EPOCH:
                # It has come again, of which the store will tell; then another outbox is opened.
                self.close()
            case ErrorCode.STALE_CONTROLLER_EPOCH:
                self.close()
                self._sender.deposed()
            case _:
                self._retry()

    def _failed(self, _: HeadwaterError) -> None:
        if not self._is_closed:
            self._retry()

    def _retry(self) -> None:
        assert self._round is not None
        self._untold.add_failed(self._round)
        self._round = None
        self._is_waiting = True
        self._sender.later(RETRY_MS, self._wake)

    def _wake(self) -> None:
        self._is_waiting = False
        self._begin()


class ControllerChannelManager:
    """Whom the controller tells; a `Sender`."""

    def __init__(
        self,
        *,
        node_id: NodeId,
        inter_broker_client: InterBrokerClient,
        later: Later,
        timeout_ms: int,
        image: Callable[[], ClusterImage],
        held_by: Callable[[NodeId], Iterable[TopicPartition]],
        heard: Callable[[ControllerChannel, Order, Message], None],
        deposed: Callable[[], None],
    ) -> None:
        self.node_id = node_id
        self.inter_broker_client = inter_broker_client
        self.later = later
        self.timeout_ms = timeout_ms
        self.held_by = held_by
        self.heard = heard
        self.deposed = deposed
        self._image = image
        self._states = MetadataStates()
        self._by_node: dict[NodeId, ControllerChannel] = {}

    @property
    def image(self) -> ClusterImage:
        return self._image()

    @property
    def are_idle(self) -> bool:
        """Whether every broker has heard everything."""
        return all(each.is_idle for each in self._by_node.values())

    def __contains__(self, broker: BrokerRegistration) -> bool:
        """Whether this registration of a broker is being told."""
        controller_channel = self._by_node.get(broker.node_id)
        return controller_channel is not None and controller_channel.broker.epoch == broker.epoch

    def get(self, node_id: NodeId) -> ControllerChannel | None:
        return self._by_node.get(node_id)

    def open(self, broker: BrokerRegistration) -> ControllerChannel:
        """Tell a broker everything, and from now on whatever changes."""
        assert broker.node_id not in self._by_node, "a former registration is still told"
        controller_channel = self._by_node[broker.node_id] = ControllerChannel(
            broker, self, self._states
        )
        controller_channel.tell_everything()
        return controller_channel

    def tell(self, news: ControlRequestBatch) -> None:
        if news.has_brokers or news.metadata or news.gone or news.roles or news.stops:
            for controller_channel in self._by_node.values():
                controller_channel.tell(news)

    def close(self, node_id: NodeId) -> None:
        controller_channel = self._by_node.pop(node_id, None)
        if controller_channel is not None:
            controller_channel.close()

    def close_all(self) -> None:
        for node_id in list(self._by_node):
            self.close(node_id)
