"""The life of an elected controller, from the image it takes over until it resigns or is fenced.

All that happens goes the same way: it is brought into the image, a decision follows from it, the
store agrees, and the brokers are told. The decisions are elsewhere (`partition_change_builder`,
`alter_partition`, `topic_deletion`, `leader_rebalance`, and what clients ask for); this is what
calls them.

What a reader would get wrong: a broker hears nothing before it has been admitted. Otherwise one
that came again unseen would be told to lead as before, though it may have lost what its followers
have. And a write that fails ends this controller: what the store has is unknown then, so it is read
anew by whoever is elected next, who may be the same broker under a new epoch.
"""

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
    ControllerChannel,
    ControllerChannelManager,
    Later,
    Order,
)
from headwater.controller.deferred_event_queue import DeferredEventQueue
from headwater.controller.leader_election import elect_and_shrink
from headwater.controller.leader_rebalance import balance_leaders
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
from headwater.metadata.control_requests import INCREMENTAL, control_request_batch
from headwater.metadata.controller_result import ControllerResult
from headwater.metadata.effective_configs import StaticConfig, settings_for, topic_defaults_for
from headwater.metadata.ports.inter_broker_client import InterBrokerClient
from headwater.metadata.ports.liveness import Liveness, LivenessRole, LivenessWatch
from headwater.metadata.ports.metadata_store import ChangeWriter, Failed
from headwater.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headwater.protocol.messages.stop_replica import StopReplicaResponse
from headwater.protocol.older_versions import Message
from headwater.security.authorization.acl_bindings import NO_ACLS

R = TypeVar("R")

SETTLED_AT_ONCE: Final = 1_000
"""Partitions that one write may set right: stores have limits to what they take in one piece."""

_UNCLEAN: Final = "unclean.leader.election.enable"
_SECOND_MS: Final = 1_000


class Controller:
    """Made when this broker was elected, with what the store had then."""

    def __init__(
        self,
        *,
        static: StaticConfig,
        store: ChangeWriter,
        inter_broker_client: InterBrokerClient,
        image: ClusterImage,
        liveness: Liveness,
        later: Later,
        ended: Callable[[BrokerRegistration], None],
        resigned: Failed,
    ) -> None:
        """`image` has this controller's epoch.

        `ended` hears whose process has ended, `resigned` once why this one cannot go on.
        """
        self.controller = DeferredEventQueue(
            store, image, self._told, foreseen=self._foreseen, failed=self._resign
        )
        self._static = static
        self._later = later
        self._liveness = liveness
        self._kept: dict[NodeId, LivenessWatch] = {}
        self._ended = ended
        self._resigned = resigned
        self._replicas_by_broker = ReplicasByBroker(image)
        self._deletions = TopicDeletions()
        self._defaults: tuple[object, TopicSettings] | None = None
        # What the brokers are told of is the way from here to the controller's image.
        self._heard_image = image
        self._is_over = False
        self._controller_channels = ControllerChannelManager(
            node_id=static.node_id,
            inter_broker_client=inter_broker_client,
            later=later,
            timeout_ms=static.settings.controller_socket_timeout_ms,
            image=lambda: self.controller.image,
            held_by=lambda node_id: self._replicas_by_broker.of(node_id, self.controller.image),
            heard=self._heard,
            deposed=self._deposed,
        )

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def is_idle(self) -> bool:
        """Whether every broker has heard everything."""
        return self._controller_channels.are_idle

    # Its life.

    def start(self) -> None:
        """Look at everything, set right what is not, and tell all brokers all there is."""
        image = self.controller.image
        for topic in image.topics.values():
            if topic.is_deleting:
                self._deletions.begin(topic, ())
        names = [
            TopicPartition(topic.name, number)
            for topic in image.topics.values()
            for number in range(len(topic.partitions))
        ]
        self._settle(names, admit=list(image.brokers))
        if self._static.settings.auto_leader_rebalance_enable:
            self._balance_later()

    def stop(self) -> None:
        """Another one decides from now on; nothing is said or heard any more."""
        self._is_over = True
        for node_id in list(self._kept):
            self._kept.pop(node_id).end()
        self._controller_channels.close_all()
        self.controller.abandon(ControllerFenced("this broker is no longer the controller"))

    def store_changed(self, changes: Sequence[MetadataChange]) -> None:
        """What the store tells its listener. Of what this controller wrote it knows already.

        Brokers that come and go together are dealt with together: none of those that have gone
        shall be taken for the last one in sync, or for a leader, on behalf of another one.
        """
        if self._is_over:
            return
        self._brokers_changed(changes)
        for change in changes:
            match change:
                case LogDirectoryFailed(node_id):
                    self._look_for_trouble(node_id)
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
        otherwise: Failed,
    ) -> None:
        """Relieve a broker that is about to stop (CS-1)."""
        refused = check_shutdown(self.controller.proposed, request)
        if refused is not None:
            then(refused)
            return
        node_id = NodeId(request.broker_id)
        self.controller.observe([BrokerStopping(node_id)])
        held = self._held_by(node_id)
        for chunk in _chunks(held):
            self._decide(
                partial(elect_and_shrink, names=chunk, may_be_unclean=self._may_be_unclean)
            )
        self.controller.submit(
            lambda image: ControllerResult((), remaining(image, node_id, held)),
            then=partial(self._relieved, node_id, held, then),
            otherwise=otherwise,
        )

    def _take_configs(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        """Somebody may have configured something past this controller, as Kafka's tools do.

        While its own changes are under way it cannot tell theirs from its own, which come back too.
        """
        controller = self.controller
        is_quiet = controller.proposed is controller.image
        if is_quiet and controller.image.configs.get(resource, {}) != values:
            controller.observe([ConfigsReplaced(resource, values)])

    def _take_acls(self, change: AclsReplaced) -> None:
        """The same of rules. While changes are under way, a newer version is not its own."""
        controller = self.controller
        known = controller.proposed.acls.get(change.pattern, NO_ACLS)
        is_quiet = controller.proposed is controller.image
        if change.acls != known and (is_quiet or change.acls.version > known.version):
            controller.observe([change])

    # Brokers.

    def _brokers_changed(self, changes: Sequence[MetadataChange]) -> None:
        epochs = {key: each.epoch for key, each in self.controller.proposed.brokers.items()}
        news: list[MetadataChange] = []
        concerned: dict[NodeId, None] = {}
        for change in changes:
            match change:
                case BrokerRegistered(broker) if broker.epoch > epochs.get(broker.node_id, -1):
                    # The former registration may have ended unnoticed.
                    epochs[broker.node_id] = broker.epoch
                    concerned[broker.node_id] = None
                    news.append(change)
                case BrokerGone(node_id) if node_id in epochs:
                    del epochs[node_id]
                    concerned[node_id] = None
                    news.append(change)
                case _:
                    pass
        if not news:
            return
        for node_id in concerned:
            self._forget(node_id)
        self.controller.observe(news)
        held = {name: None for node_id in concerned for name in self._held_by(node_id)}
        came = [node_id for node_id in concerned if node_id in epochs]
        self._settle(list(held), admit=came)

    def _forget(self, node_id: NodeId) -> None:
        """Whatever was on its way to a registration of a broker, or expected from it."""
        liveness_watch = self._kept.pop(node_id, None)
        if liveness_watch is not None:
            liveness_watch.end()
        self._controller_channels.close(node_id)
        self._deletions.broker_went(node_id)

    def _watch(self, broker: BrokerRegistration) -> None:
        if broker.node_id != self._static.node_id:
            self._kept[broker.node_id] = self._liveness.keep(
                broker.node_id, LivenessRole.REGISTRATION, refused=partial(self._ended, broker)
            )

    def _relieved(
        self,
        node_id: NodeId,
        held: list[TopicPartition],
        then: Callable[[ControlledShutdownResponse], None],
        response: ControlledShutdownResponse,
    ) -> None:
        controller_channel = self._controller_channels.get(node_id)
        if controller_channel is not None and not self._is_over:
            controller_channel.stop(followed(self.controller.image, node_id, held))
        then(response)

    def _look_for_trouble(self, node_id: NodeId) -> None:
        controller_channel = self._controller_channels.get(node_id)
        if controller_channel is not None:
            controller_channel.tell_roles()

    def _held_by(self, node_id: NodeId) -> list[TopicPartition]:
        return self._replicas_by_broker.of(node_id, self.controller.proposed)

    # Decisions that nobody has asked for.

    def _settle(self, names: Sequence[TopicPartition], *, admit: Sequence[NodeId] = ()) -> None:
        """Set partitions right, then admit brokers, and tell those all there is."""
        chunks = _chunks(names)
        for chunk in chunks[:-1]:
            self._decide(
                partial(elect_and_shrink, names=chunk, may_be_unclean=self._may_be_unclean)
            )
        self._decide(
            partial(
                elect_and_shrink, names=chunks[-1], may_be_unclean=self._may_be_unclean, admit=admit
            ),
            then=lambda _: self._open_controller_channels(admit, 0),
        )

    def _open_controller_channels(self, admitted: Sequence[NodeId], turn: int) -> None:
        """One at a time: with many partitions, to write all there is takes a while each time."""
        if turn == len(admitted) or self._is_over:
            return
        image = self.controller.image
        broker = image.brokers.get(admitted[turn])
        # One that went meanwhile, or came again, is the affair of another decision.
        if (
            broker is not None
            and broker not in self._controller_channels
            and _is_admitted(image, broker)
        ):
            controller_channel = self._controller_channels.open(broker)
            controller_channel.stop(self._deletions.broker_came(broker.node_id))
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

        # A failure ends this controller, of which `_resign` hears.
        self.controller.submit(decide, then=agreed, otherwise=_ignore)

    def _balance_later(self) -> None:
        interval_s = self._static.settings.leader_imbalance_check_interval_seconds
        self._later(interval_s * _SECOND_MS, self._balance)

    def _balance(self) -> None:
        if self._is_over:
            return
        percentage = self._static.settings.leader_imbalance_per_broker_percentage
        self._decide(partial(balance_leaders, percentage=percentage))
        self._balance_later()

    def _may_be_unclean(self, topic: str) -> bool:
        image = self.controller.proposed
        if self._defaults is None or self._defaults[0] is not image.configs:
            self._defaults = (image.configs, topic_defaults_for(image, self._static))
        return settings_for(image, topic, self._defaults[1]).unclean_leader_election_enable

    # What follows from what was agreed on.

    def _foreseen(self, _: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        self._replicas_by_broker.changed(changes)

    def _told(self, image: ClusterImage, changes: Sequence[MetadataChange]) -> None:
        before, self._heard_image = self._heard_image, image
        if self._is_over:
            return
        self._controller_channels.tell(control_request_batch(before, image, changes))
        for change in changes:
            match change:
                case TopicDeletionBegun(name):
                    self._delete_replicas(name)
                case TopicDeleted(name):
                    self._deletions.finished(name)
                case ConfigsReplaced(resource, _):
                    self._reconsider(resource)
                case _:
                    pass

    def _delete_replicas(self, name: str) -> None:
        topic = self.controller.image.topics.get(name)
        if topic is None:
            return
        up = [each for each in self.controller.image.brokers if self._controller_channels.get(each)]
        for node_id, stops in self._deletions.begin(topic, up).items():
            controller_channel = self._controller_channels.get(node_id)
            assert controller_channel is not None
            controller_channel.stop(stops)

    def _reconsider(self, resource: ConfigResource) -> None:
        """Partitions without a leader may get one, if an unclean one is allowed now."""
        image = self.controller.proposed
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
            self._settle(names)

    def _heard(
        self, controller_channel: ControllerChannel, request: Order, response: Message
    ) -> None:
        node_id = controller_channel.broker.node_id
        if isinstance(response, LeaderAndIsrResponse):
            assert isinstance(request, LeaderAndIsrRequest)
            self._heard_of_roles(controller_channel, request, response)
        elif isinstance(response, StopReplicaResponse):
            for each in response.partition_errors:
                name = TopicPartition(each.topic_name, each.partition_index)
                topic_id = self._deletions.answered(node_id, name, each.error_code)
                if topic_id is not None:
                    self._decide(partial(finish_deletion, topic_name=name.topic, topic_id=topic_id))

    def _heard_of_roles(
        self,
        controller_channel: ControllerChannel,
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
                    # It does not know what it should; to be told everything helps against that.
                    controller_channel.tell_everything()
        broker = self.controller.proposed.brokers.get(controller_channel.broker.node_id)
        if broker is not None and not broker.offline_replicas.issuperset(failed):
            self.controller.observe([ReplicasOffline(broker.node_id, frozenset(failed))])
            self._settle(failed)

    # Its end.

    def _deposed(self) -> None:
        self._resign(ControllerFenced("a broker knows a later controller"))

    def _resign(self, error: HeadwaterError) -> None:
        if not self._is_over:
            self.stop()
            self._resigned(error)


def _is_admitted(image: ClusterImage, broker: BrokerRegistration) -> bool:
    return image.admitted_epochs.get(broker.node_id) == broker.epoch


def _begin_deletion(image: ClusterImage, name: str) -> ControllerResult[None]:
    topic = image.topics.get(name)
    is_news = topic is not None and not topic.is_deleting
    return ControllerResult([TopicDeletionBegun(name)] if is_news else [], None)


def _chunks(names: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """In pieces that one write can take; one at least, be it empty."""
    starts = range(0, max(len(names), 1), SETTLED_AT_ONCE)
    return [names[start : start + SETTLED_AT_ONCE] for start in starts]


def _ignore(_: HeadwaterError) -> None:
    """Whoever must know of a failed write hears of it in another way."""
