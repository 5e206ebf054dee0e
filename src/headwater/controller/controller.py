"""The elected controller, from its election until it resigns or is fenced.

Every event takes the same path: it is applied to the image, a decision follows, the store writes
the changes, and the brokers are updated. The decisions are in other modules (`leader_election`,
`alter_partition`, `topic_deletion`, `elect_leaders`, and client requests); this class calls
them.

Note: a broker gets no requests before it has been admitted. Otherwise a broker that restarted
unnoticed would continue as leader, although it may have lost records that its followers have.

Note: a failed write ends this controller, since the store's content is then unknown. The next
elected controller reads it again; that may be the same broker under a new epoch.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from headwater.common.config_types import ResourceType
from headwater.common.error_codes import ErrorCode
from headwater.common.exceptions import ControllerFenced, HeadwaterError
from headwater.common.ids import NodeId, TopicPartition
from headwater.common.settings.topic_settings import TopicSettings
from headwater.controller.controlled_shutdown import check_shutdown, followed, remaining
from headwater.controller.controller_channel_manager import (
    CallLater,
    ControllerChannel,
    ControllerChannelManager,
    ControllerChannels,
    ControlRequest,
    NoControllerChannels,
)
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.elect_leaders import balance_leaders
from headwater.controller.leader_election import elect_and_shrink
from headwater.controller.partition_state_machine import invalid_transitions
from headwater.controller.replicas_by_broker import ReplicasByBroker
from headwater.controller.topic_deletion import TopicDeletions, finish_deletion
from headwater.metadata.changes import (
    AclsReplaced,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ConfigsReplaced,
    LogDirectoryFailed,
    MetadataChange,
    ReplicasOffline,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.metadata.cluster_image import (
    NO_LEADER,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
)
from headwater.metadata.control_requests import INCREMENTAL
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig, settings_for, topic_defaults_for
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.metadata.ports.liveness import (
    Liveness,
    LivenessRole,
    LivenessWatch,
    NoLiveness,
)
from headwater.metadata.ports.metadata_store import ChangeWriter, Failed
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headwater.protocol.messages.stop_replica import StopReplicaResponse
from headwater.protocol.older_versions import Message
from headwater.security.authorization.acl_bindings import NO_ACLS

_log = logging.getLogger(__name__)

R = TypeVar("R")

PARTITIONS_PER_WRITE: Final = 1_000
"""Partitions per write: stores limit the size of one write."""

_UNCLEAN: Final = "unclean.leader.election.enable"
_SECOND_MS: Final = 1_000


class Controller:
    """Created when this broker is elected, with the image that the store had then."""

    def __init__(
        self,
        *,
        static: StaticConfig,
        store: ChangeWriter,
        image: ClusterImage,
        call_later: CallLater,
        on_resigned: Failed,
        inter_broker_client: InterBrokerClient | None = None,
        liveness: Liveness | None = None,
        on_broker_ended: Callable[[BrokerRegistration], None] | None = None,
    ) -> None:
        """`image` has this controller's epoch.

        `on_resigned` is called once with the reason why this controller cannot continue,
        `on_broker_ended` with the registration of a broker whose process has ended. Without an
        `inter_broker_client` brokers learn of changes by themselves, from the metadata log.
        """
        self.event_queue = DeferredEventQueue(
            store,
            image,
            self._handle_written,
            on_proposed=self._handle_proposed,
            on_failure=self._resign,
        )
        self._static = static
        self._later = call_later
        self._liveness = liveness or NoLiveness()
        self._liveness_watches: dict[NodeId, LivenessWatch] = {}
        self._on_broker_ended = on_broker_ended
        self._resigned = on_resigned
        self._replicas_by_broker = ReplicasByBroker(image)
        self._deletions = TopicDeletions()
        self._defaults: tuple[object, TopicSettings] | None = None
        # The image up to which brokers have been sent changes.
        self._sent_image = image
        self._is_over = False
        self._controller_channels: ControllerChannels = (
            NoControllerChannels()
            if inter_broker_client is None
            else self._new_channels(inter_broker_client)
        )

    def _new_channels(self, inter_broker_client: InterBrokerClient) -> ControllerChannelManager:
        return ControllerChannelManager(
            node_id=self._static.node_id,
            inter_broker_client=inter_broker_client,
            call_later=self._later,
            timeout_ms=self._static.settings.controller_socket_timeout_ms,
            image=lambda: self.event_queue.image,
            held_by=lambda node_id: self._replicas_by_broker.of(node_id, self.event_queue.image),
            on_response=self._handle_response,
            on_deposed=self._deposed,
        )

    @property
    def image(self) -> ClusterImage:
        return self.event_queue.image

    @property
    def is_idle(self) -> bool:
        """Whether every broker has answered all requests."""
        return self._controller_channels.are_idle

    # Start and stop.

    def start(self, *, is_settled: bool = False) -> None:
        """Elect leaders where necessary and send every broker its full state.

        Without elections if the image is settled: brokers come and go only by decisions in it.
        """
        image = self.event_queue.image
        for topic in image.topics.values():
            if topic.is_deleting:
                self._deletions.begin(topic, ())
        if not is_settled:
            names = [
                TopicPartition(topic.name, number)
                for topic in image.topics.values()
                for number in range(len(topic.partitions))
            ]
            self._elect_and_admit(names, admit=list(image.brokers))
        if self._static.settings.auto_leader_rebalance_enable:
            self._balance_later()

    def stop(self) -> None:
        """Stop deciding: another controller took over, or the broker is stopping."""
        self._is_over = True
        for node_id in list(self._liveness_watches):
            self._liveness_watches.pop(node_id).end()
        self._controller_channels.close_all()
        self.event_queue.abandon(ControllerFenced("this broker is no longer the controller"))

    def store_changed(self, changes: Sequence[MetadataChange]) -> None:
        """Handle changes that the store reports, except the controller's own writes.

        Brokers that come and go together are handled together: no broker that is gone may be
        elected or kept as the last ISR member while another one is handled.
        """
        if self._is_over:
            return
        self._brokers_changed(changes)
        for change in changes:
            match change:
                case LogDirectoryFailed(node_id):
                    self._request_replica_states(node_id)
                case TopicDeletionBegun(name):
                    self._decide(partial(_begin_deletion, name=name))
                case ConfigsReplaced(resource, values):
                    self._take_configs(resource, values)
                case AclsReplaced():
                    self._take_acls(change)
                case _:
                    pass

    def controlled_shutdown(
        self,
        request: ControlledShutdownRequest,
        *,
        then: Callable[[ControlledShutdownResponse], None],
        on_error: Failed,
    ) -> None:
        """Move leaders off a broker that is about to stop (CS-1)."""
        refused = check_shutdown(self.event_queue.proposed, request)
        if refused is not None:
            then(refused)
            return
        node_id = NodeId(request.broker_id)
        self.event_queue.observe([BrokerStopping(node_id)])
        held = self.held_by(node_id)
        for chunk in _chunks(held):
            self._decide(partial(elect_and_shrink, names=chunk, may_be_unclean=self.may_be_unclean))
        self.event_queue.submit(
            lambda image: ControllerResult((), remaining(image, node_id, held)),
            then=partial(self._stop_followers, node_id, held, then),
            on_error=on_error,
        )

    def _take_configs(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        """Apply configs that were written past this controller, as Kafka's tools do.

        While writes are in flight, its own changes that come back cannot be told from others.
        """
        controller = self.event_queue
        has_no_writes = controller.proposed is controller.image
        if has_no_writes and controller.image.configs.get(resource, {}) != values:
            controller.observe([ConfigsReplaced(resource, values)])

    def _take_acls(self, change: AclsReplaced) -> None:
        """The same for ACLs; a newer version than this controller proposed is not its own."""
        controller = self.event_queue
        known = controller.proposed.acls.get(change.pattern, NO_ACLS)
        has_no_writes = controller.proposed is controller.image
        if change.acls != known and (has_no_writes or change.acls.version > known.version):
            controller.observe([change])

    # Brokers.

    def _brokers_changed(self, changes: Sequence[MetadataChange]) -> None:
        epochs = {key: each.epoch for key, each in self.event_queue.proposed.brokers.items()}
        relevant: list[MetadataChange] = []
        node_ids: dict[NodeId, None] = {}
        for change in changes:
            match change:
                case BrokerRegistered(broker) if broker.epoch > epochs.get(broker.node_id, -1):
                    # Its earlier registration may have ended unnoticed.
                    epochs[broker.node_id] = broker.epoch
                    node_ids[broker.node_id] = None
                    relevant.append(change)
                case BrokerGone(node_id) if node_id in epochs:
                    del epochs[node_id]
                    node_ids[node_id] = None
                    relevant.append(change)
                case _:
                    pass
        if not relevant:
            return
        for node_id in node_ids:
            self._forget(node_id)
        self.event_queue.observe(relevant)
        held = {name: None for node_id in node_ids for name in self.held_by(node_id)}
        registered = [node_id for node_id in node_ids if node_id in epochs]
        self._elect_and_admit(list(held), admit=registered)

    def _forget(self, node_id: NodeId) -> None:
        """Drop requests to, and expectations of, an earlier registration of a broker."""
        liveness_watch = self._liveness_watches.pop(node_id, None)
        if liveness_watch is not None:
            liveness_watch.end()
        self._controller_channels.close(node_id)
        self._deletions.on_broker_offline(node_id)

    def _watch(self, broker: BrokerRegistration) -> None:
        if broker.node_id != self._static.node_id and self._on_broker_ended is not None:
            self._liveness_watches[broker.node_id] = self._liveness.watch(
                broker.node_id,
                LivenessRole.REGISTRATION,
                on_refused=partial(self._on_broker_ended, broker),
            )

    def _stop_followers(
        self,
        node_id: NodeId,
        held: list[TopicPartition],
        then: Callable[[ControlledShutdownResponse], None],
        response: ControlledShutdownResponse,
    ) -> None:
        channel = self._controller_channels.get(node_id)
        if channel is not None and not self._is_over:
            channel.stop(followed(self.event_queue.image, node_id, held))
        then(response)

    def _request_replica_states(self, node_id: NodeId) -> None:
        channel = self._controller_channels.get(node_id)
        if channel is not None:
            channel.send_leader_and_isr()

    def held_by(self, node_id: NodeId) -> list[TopicPartition]:
        """Return the partitions with a replica on a broker, in the proposed image."""
        return self._replicas_by_broker.of(node_id, self.event_queue.proposed)

    # Decisions without a client request.

    def _elect_and_admit(
        self, names: Sequence[TopicPartition], *, admit: Sequence[NodeId] = ()
    ) -> None:
        """Elect and shrink for partitions, then admit brokers and send the full state."""
        chunks = _chunks(names)
        for chunk in chunks[:-1]:
            self._decide(partial(elect_and_shrink, names=chunk, may_be_unclean=self.may_be_unclean))
        self._decide(
            partial(
                elect_and_shrink, names=chunks[-1], may_be_unclean=self.may_be_unclean, admit=admit
            ),
            then=lambda _: self._open_controller_channels(admit, 0),
        )

    def _open_controller_channels(self, admitted: Sequence[NodeId], turn: int) -> None:
        """Open one channel at a time, as building the full state may take long."""
        if turn == len(admitted) or self._is_over:
            return
        image = self.event_queue.image
        broker = image.brokers.get(admitted[turn])
        # A broker that left or registered again meanwhile is handled by another decision.
        if (
            broker is not None
            and broker not in self._controller_channels
            and _is_admitted(image, broker)
        ):
            channel = self._controller_channels.open(broker)
            channel.stop(self._deletions.on_broker_online(broker.node_id))
            self._watch(broker)
        self._later(0, partial(self._open_controller_channels, admitted, turn + 1))

    def _decide(
        self,
        decide: Callable[[ClusterImage], ControllerResult[R]],
        then: Callable[[R], None] | None = None,
    ) -> None:
        def agreed(answer: R) -> None:
            if then is not None and not self._is_over:
                then(answer)

        # A failed write ends this controller through `_resign`.
        self.event_queue.submit(decide, then=agreed, on_error=_ignore)

    def _balance_later(self) -> None:
        interval_s = self._static.settings.leader_imbalance_check_interval_seconds
        self._later(interval_s * _SECOND_MS, self._balance)

    def _balance(self) -> None:
        if self._is_over:
            return
        percentage = self._static.settings.leader_imbalance_per_broker_percentage
        self._decide(partial(balance_leaders, percentage=percentage))
        self._balance_later()

    def may_be_unclean(self, topic: str) -> bool:
        """Return whether a topic allows unclean leader election."""
        image = self.event_queue.proposed
        if self._defaults is None or self._defaults[0] is not image.configs:
            self._defaults = (image.configs, topic_defaults_for(image, self._static))
        return settings_for(image, topic, self._defaults[1]).unclean_leader_election_enable

    # After a change was written.

    def _handle_proposed(self, _: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        self._replicas_by_broker.changed(changes)

    def _handle_written(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        before, self._sent_image = self._sent_image, image
        if self._is_over:
            return
        for partition, source, target in invalid_transitions(before, image, changes):
            _log.error(
                "Invalid partition state transition: partition=%s from=%s to=%s",
                partition,
                source.name,
                target.name,
            )
        self._controller_channels.handle_written(before, image, changes)
        for change in changes:
            match change:
                case TopicDeletionBegun(name):
                    self._delete_replicas(name)
                case TopicDeleted(name):
                    self._deletions.finished(name)
                case ConfigsReplaced(resource, _):
                    self._elect_unclean_if_enabled(resource)
                case _:
                    pass

    def _delete_replicas(self, name: str) -> None:
        topic = self.event_queue.image.topics.get(name)
        if topic is None:
            return
        if not self._controller_channels.must_delete_replicas:
            self._decide(partial(finish_deletion, topic_name=name, topic_id=topic.topic_id))
            return
        up = [
            each for each in self.event_queue.image.brokers if self._controller_channels.get(each)
        ]
        for node_id, stops in self._deletions.begin(topic, up).items():
            channel = self._controller_channels.get(node_id)
            assert channel is not None
            channel.stop(stops)

    def _elect_unclean_if_enabled(self, resource: ConfigResource) -> None:
        """Elect leaders for offline partitions if unclean election has been enabled."""
        image = self.event_queue.proposed
        values = image.configs.get(resource, {})
        if values.get(_UNCLEAN) != "true":
            return
        topics = [resource.name] if resource.resource_type is ResourceType.TOPIC else image.topics
        names = [
            TopicPartition(name, number)
            for name in topics
            if (topic := image.topics.get(name)) is not None
            for number, partition in enumerate(topic.partitions)
            if partition.leader == NO_LEADER
        ]
        if names:
            self._elect_and_admit(names)

    def _handle_response(
        self, channel: ControllerChannel, request: ControlRequest, response: Message
    ) -> None:
        node_id = channel.broker.node_id
        if isinstance(response, LeaderAndIsrResponse):
            assert isinstance(request, LeaderAndIsrRequest)
            self._handle_leader_and_isr(channel, request, response)
        elif isinstance(response, StopReplicaResponse):
            for each in response.partition_errors:
                name = TopicPartition(each.topic_name, each.partition_index)
                topic_id = self._deletions.on_response(node_id, name, each.error_code)
                if topic_id is not None:
                    self._decide(partial(finish_deletion, topic_name=name.topic, topic_id=topic_id))

    def _handle_leader_and_isr(
        self,
        channel: ControllerChannel,
        request: LeaderAndIsrRequest,
        response: LeaderAndIsrResponse,
    ) -> None:
        names = {state.topic_id: state.topic_name for state in request.topic_states}
        failed: list[TopicPartition] = []
        for topic in response.topics:
            for each in topic.partition_errors:
                if each.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
                    failed.append(TopicPartition(names[topic.topic_id], each.partition_index))
                elif each.error_code and request.type == INCREMENTAL:
                    # The broker's state is incomplete; a full update repairs it.
                    channel.send_full_update()
        broker = self.event_queue.proposed.brokers.get(channel.broker.node_id)
        if broker is not None and not broker.offline_replicas.issuperset(failed):
            self.event_queue.observe([ReplicasOffline(broker.node_id, frozenset(failed))])
            self._elect_and_admit(failed)

    # Resignation.

    def _deposed(self) -> None:
        self._resign(ControllerFenced("a broker has seen a later controller epoch"))

    def _resign(self, error: HeadwaterError) -> None:
        if not self._is_over:
            self.stop()
            self._resigned(error)


def _is_admitted(image: ClusterImage, broker: BrokerRegistration) -> bool:
    return image.admitted_epochs.get(broker.node_id) == broker.epoch


def _begin_deletion(image: ClusterImage, name: str) -> ControllerResult[None]:
    topic = image.topics.get(name)
    is_first = topic is not None and not topic.is_deleting
    return ControllerResult([TopicDeletionBegun(name)] if is_first else [], None)


def _chunks(names: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """Split into pieces for one write each; at least one, even if empty."""
    starts = range(0, max(len(names), 1), PARTITIONS_PER_WRITE)
    return [names[start : start + PARTITIONS_PER_WRITE] for start in starts]


def _ignore(_: HeadwaterError) -> None:
    """A failed write ends the controller, which reports it."""
