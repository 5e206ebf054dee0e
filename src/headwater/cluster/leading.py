"""The life of an elected controller, from the image it takes over until it resigns or is fenced.

All that happens goes the same way: it is brought into the image, a decision follows from it, the
store agrees, and the brokers are told. The decisions are elsewhere (`settlement`, `in_sync`,
`topic_deletion`, `leader_balance`, and what clients ask for); this is what calls them.

What a reader would get wrong: a broker hears nothing before it has been admitted. Otherwise one
that came again unseen would be told to lead as before, though it may have lost what its followers
have. And a write that fails ends this controller: what the store has is unknown then, so it is read
anew by whoever is elected next, who may be the same broker under a new epoch.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from headwater.cluster.announcements import INCREMENTAL, news_of
from headwater.cluster.colleagues import Colleagues
from headwater.cluster.controlled_shutdown import followed, refuse_shutdown, remaining
from headwater.cluster.controller import Controller
from headwater.cluster.decision import Decision
from headwater.cluster.effective import StaticConfig, settings_for, topic_defaults_for
from headwater.cluster.facts import (
    AclsReplaced,
    BrokerGone,
    BrokerRegistered,
    BrokerStopping,
    ConfigsReplaced,
    Fact,
    LogDirectoryFailed,
    ReplicasOffline,
    TopicDeleted,
    TopicDeletionBegun,
)
from headwater.cluster.holdings import Holdings
from headwater.cluster.image import NO_LEADER, Broker, ClusterImage, ConfigResource
from headwater.cluster.leader_balance import balance_leaders
from headwater.cluster.outbox import Later, Order, Outbox
from headwater.cluster.outboxes import Outboxes
from headwater.cluster.settlement import settle
from headwater.cluster.store import FactWriter, Failed
from headwater.cluster.topic_deletion import TopicDeletions, finish_deletion
from headwater.cluster.vigils import Concern, Vigil, Vigils
from headwater.model.config_terms import ResourceType
from headwater.model.errors import ErrorCode
from headwater.model.failures import ControllerFenced, HeadwaterError
from headwater.model.ids import NodeId, TopicPartition
from headwater.model.topic_settings import TopicSettings
from headwater.security.acls.bindings import NO_ACLS
from headwater.wire.lifting import Message
from headwater.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from headwater.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from headwater.wire.messages.stop_replica import StopReplicaResponse

R = TypeVar("R")

SETTLED_AT_ONCE: Final = 1_000
"""Partitions that one write may set right: stores have limits to what they take in one piece."""

_UNCLEAN: Final = "unclean.leader.election.enable"
_SECOND_MS: Final = 1_000


class Leading:
    """Made when this broker was elected, with what the store had then."""

    def __init__(
        self,
        *,
        static: StaticConfig,
        store: FactWriter,
        colleagues: Colleagues,
        image: ClusterImage,
        vigils: Vigils,
        later: Later,
        ended: Callable[[Broker], None],
        resigned: Failed,
    ) -> None:
        """`image` has this controller's epoch.

        `ended` hears whose process has ended, `resigned` once why this one cannot go on.
        """
        self.controller = Controller(
            store, image, self._told, foreseen=self._foreseen, failed=self._resign
        )
        self._static = static
        self._later = later
        self._vigils = vigils
        self._kept: dict[NodeId, Vigil] = {}
        self._ended = ended
        self._resigned = resigned
        self._holdings = Holdings(image)
        self._deletions = TopicDeletions()
        self._defaults: tuple[object, TopicSettings] | None = None
        # What the brokers are told of is the way from here to the controller's image.
        self._heard_image = image
        self._is_over = False
        self._outboxes = Outboxes(
            node_id=static.node_id,
            colleagues=colleagues,
            later=later,
            timeout_ms=static.settings.controller_socket_timeout_ms,
            image=lambda: self.controller.image,
            held_by=lambda node_id: self._holdings.of(node_id, self.controller.image),
            heard=self._heard,
            deposed=self._deposed,
        )

    @property
    def image(self) -> ClusterImage:
        return self.controller.image

    @property
    def is_idle(self) -> bool:
        """Whether every broker has heard everything."""
        return self._outboxes.are_idle

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
        self._outboxes.close_all()
        self.controller.abandon(ControllerFenced("this broker is no longer the controller"))

    def store_changed(self, facts: Sequence[Fact]) -> None:
        """What the store tells its listener. Of what this controller wrote it knows already.

        Brokers that come and go together are dealt with together: none of those that have gone
        shall be taken for the last one in sync, or for a leader, on behalf of another one.
        """
        if self._is_over:
            return
        self._brokers_changed(facts)
        for fact in facts:
            match fact:
                case LogDirectoryFailed(node_id):
                    self._look_for_trouble(node_id)
                case TopicDeletionBegun(name):
                    self._decide(partial(_begin_deletion, name=name))
                case ConfigsReplaced(resource, values):
                    self._take_configs(resource, values)
                case AclsReplaced():
                    self._take_acls(fact)
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
        refused = refuse_shutdown(self.controller.proposed, request)
        if refused is not None:
            then(refused)
            return
        node_id = NodeId(request.broker_id)
        self.controller.observe([BrokerStopping(node_id)])
        held = self._held_by(node_id)
        for chunk in _chunks(held):
            self._decide(partial(settle, names=chunk, may_be_unclean=self._may_be_unclean))
        self.controller.submit(
            lambda image: Decision((), remaining(image, node_id, held)),
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

    def _take_acls(self, fact: AclsReplaced) -> None:
        """The same of rules. While changes are under way, a newer version is not its own."""
        controller = self.controller
        known = controller.proposed.acls.get(fact.pattern, NO_ACLS)
        is_quiet = controller.proposed is controller.image
        if fact.acls != known and (is_quiet or fact.acls.version > known.version):
            controller.observe([fact])

    # Brokers.

    def _brokers_changed(self, facts: Sequence[Fact]) -> None:
        epochs = {key: each.epoch for key, each in self.controller.proposed.brokers.items()}
        news: list[Fact] = []
        concerned: dict[NodeId, None] = {}
        for fact in facts:
            match fact:
                case BrokerRegistered(broker) if broker.epoch > epochs.get(broker.node_id, -1):
                    # The former registration may have ended unnoticed.
                    epochs[broker.node_id] = broker.epoch
                    concerned[broker.node_id] = None
                    news.append(fact)
                case BrokerGone(node_id) if node_id in epochs:
                    del epochs[node_id]
                    concerned[node_id] = None
                    news.append(fact)
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
        vigil = self._kept.pop(node_id, None)
        if vigil is not None:
            vigil.end()
        self._outboxes.close(node_id)
        self._deletions.broker_went(node_id)

    def _watch(self, broker: Broker) -> None:
        if broker.node_id != self._static.node_id:
            self._kept[broker.node_id] = self._vigils.keep(
                broker.node_id, Concern.REGISTRATION, refused=partial(self._ended, broker)
            )

    def _relieved(
        self,
        node_id: NodeId,
        held: list[TopicPartition],
        then: Callable[[ControlledShutdownResponse], None],
        response: ControlledShutdownResponse,
    ) -> None:
        outbox = self._outboxes.get(node_id)
        if outbox is not None and not self._is_over:
            outbox.stop(followed(self.controller.image, node_id, held))
        then(response)

    def _look_for_trouble(self, node_id: NodeId) -> None:
        outbox = self._outboxes.get(node_id)
        if outbox is not None:
            outbox.tell_roles()

    def _held_by(self, node_id: NodeId) -> list[TopicPartition]:
        return self._holdings.of(node_id, self.controller.proposed)

    # Decisions that nobody has asked for.

    def _settle(self, names: Sequence[TopicPartition], *, admit: Sequence[NodeId] = ()) -> None:
        """Set partitions right, then admit brokers, and tell those all there is."""
        chunks = _chunks(names)
        for chunk in chunks[:-1]:
            self._decide(partial(settle, names=chunk, may_be_unclean=self._may_be_unclean))
        self._decide(
            partial(settle, names=chunks[-1], may_be_unclean=self._may_be_unclean, admit=admit),
            then=lambda _: self._open_outboxes(admit, 0),
        )

    def _open_outboxes(self, admitted: Sequence[NodeId], turn: int) -> None:
        """One at a time: with many partitions, to write all there is takes a while each time."""
        if turn == len(admitted) or self._is_over:
            return
        image = self.controller.image
        broker = image.brokers.get(admitted[turn])
        # One that went meanwhile, or came again, is the affair of another decision.
        if broker is not None and broker not in self._outboxes and _is_admitted(image, broker):
            outbox = self._outboxes.open(broker)
            outbox.stop(self._deletions.broker_came(broker.node_id))
            self._watch(broker)
        self._later(0, partial(self._open_outboxes, admitted, turn + 1))

    def _decide(
        self,
        decide: Callable[[ClusterImage], Decision[R]],
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

    def _foreseen(self, _: ClusterImage, facts: Sequence[Fact]) -> None:
        self._holdings.changed(facts)

    def _told(self, image: ClusterImage, facts: Sequence[Fact]) -> None:
        before, self._heard_image = self._heard_image, image
        if self._is_over:
            return
        self._outboxes.tell(news_of(before, image, facts))
        for fact in facts:
            match fact:
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
        up = [each for each in self.controller.image.brokers if self._outboxes.get(each)]
        for node_id, stops in self._deletions.begin(topic, up).items():
            outbox = self._outboxes.get(node_id)
            assert outbox is not None
            outbox.stop(stops)

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

    def _heard(self, outbox: Outbox, request: Order, response: Message) -> None:
        node_id = outbox.broker.node_id
        if isinstance(response, LeaderAndIsrResponse):
            assert isinstance(request, LeaderAndIsrRequest)
            self._heard_of_roles(outbox, request, response)
        elif isinstance(response, StopReplicaResponse):
            for each in response.partition_errors:
                name = TopicPartition(each.topic_name, each.partition_index)
                topic_id = self._deletions.answered(node_id, name, each.error_code)
                if topic_id is not None:
                    self._decide(partial(finish_deletion, topic_name=name.topic, topic_id=topic_id))

    def _heard_of_roles(
        self, outbox: Outbox, request: LeaderAndIsrRequest, response: LeaderAndIsrResponse
    ) -> None:
        names = {state.topic_id: state.topic_name for state in request.topic_states}
        failed: list[TopicPartition] = []
        for topic in response.topics:
            for each in topic.partition_errors:
                if each.error_code is ErrorCode.KAFKA_STORAGE_ERROR:
                    failed.append(TopicPartition(names[topic.topic_id], each.partition_index))
                elif each.error_code and request.type == INCREMENTAL:
                    # It does not know what it should; to be told everything helps against that.
                    outbox.tell_everything()
        broker = self.controller.proposed.brokers.get(outbox.broker.node_id)
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


def _is_admitted(image: ClusterImage, broker: Broker) -> bool:
    return image.admitted_epochs.get(broker.node_id) == broker.epoch


def _begin_deletion(image: ClusterImage, name: str) -> Decision[None]:
    topic = image.topics.get(name)
    is_news = topic is not None and not topic.is_deleting
    return Decision([TopicDeletionBegun(name)] if is_news else [], None)


def _chunks(names: Sequence[TopicPartition]) -> list[Sequence[TopicPartition]]:
    """In pieces that one write can take; one at least, be it empty."""
    starts = range(0, max(len(names), 1), SETTLED_AT_ONCE)
    return [names[start : start + SETTLED_AT_ONCE] for start in starts]


def _ignore(_: HeadwaterError) -> None:
    """Whoever must know of a failed write hears of it in another way."""
