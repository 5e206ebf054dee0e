"""The fake store: sessions, fences, and answers that get lost."""

import random
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId, TopicId
from headwater.controller.topic_creation import new_partition
from headwater.metadata.changes import (
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    MetadataChange,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
)
from headwater.metadata.cluster_image import ConfigResource, TopicImage, Version
from headwater.metadata.ports.metadata_store import Registration
from tests.simulation.fakes.shared_metadata_store import SESSION_TIMEOUT_MS, SharedStore
from tests.simulation.fakes.virtual_time import VirtualTime

TOPIC = TopicImage(name="t", topic_id=TopicId(b"t" * 16), partitions=(new_partition([0]),))
CONFIGS = ConfigResource(ResourceType.TOPIC, "t")


class Listener:
    """A broker's session with the store; it collects changes and answers."""

    def __init__(self, store: SharedStore, node_id: int) -> None:
        self.session = store.session(node_id)
        self.session.listen(self)
        self.changes: list[MetadataChange] = []
        self.said: list[str] = []
        self.version = Version(0, 0)

    def register(self) -> None:
        registration = Registration(node_id=self.session.node_id)
        self.session.register(registration, then=self._say("epoch"), on_error=self._failed)

    def lead(self) -> None:
        self.session.become_controller(
            self.session.node_id, then=self._agreed, on_error=self._failed
        )

    def write(self, *changes: MetadataChange, fence: Version | None = None) -> None:
        self.session.write(
            changes, fence=fence or self.version, then=self._agreed, on_error=self._failed
        )

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:
        assert version.controller_epoch >= self.version.controller_epoch
        self.changes += changes

    def session_lost(self) -> None:
        self.said.append("lost")

    def registration_lost(self) -> None:
        self.said.append("not registered")

    def _agreed(self, version: Version) -> None:
        self.version = version
        self.said.append(f"{version.controller_epoch}.{version.sequence}")

    def _say(self, word: str) -> Callable[[object], None]:
        return lambda value: self.said.append(f"{word} {value}")

    def _failed(self, error: HeadwaterError) -> None:
        self.said.append(type(error).__name__)


@pytest.fixture
def store() -> SharedStore:
    return SharedStore(VirtualTime(random.Random(1)))


def registered(store: SharedStore, count: int) -> list[Listener]:
    listeners = [Listener(store, number) for number in range(count)]
    for each in listeners:
        each.register()
    store.time.run_for(100)
    for each in listeners:
        each.changes.clear()
        each.said.clear()
    return listeners


def test_all_sessions_learn_of_registrations_and_the_controller(store: SharedStore) -> None:
    first, second = registered(store, 2)
    second.lead()
    store.time.run_for(100)
    first.lead()
    store.time.run_for(100)
    assert (first.said, second.said) == (["ControllerFenced"], ["1.0"])
    assert first.changes == second.changes == [ControllerElected(NodeId(1))]
    assert [each.epoch for each in store.image.brokers.values()] == [1, 2]


def test_only_the_current_controller_with_the_newest_version_can_write(store: SharedStore) -> None:
    first, second = registered(store, 2)
    first.lead()
    store.time.run_for(100)
    first.write(ProducerIdsAllocated(1))
    first.write(ProducerIdsAllocated(2))
    second.write(ProducerIdsAllocated(3), fence=Version(1, 1))
    store.time.run_for(100)
    assert first.said == ["1.0", "1.1", "ControllerFenced"]
    assert second.said == ["ControllerFenced"]
    assert store.image.next_producer_id == 1


def test_config_changes_reach_all_sessions_and_end_with_their_topic(store: SharedStore) -> None:
    listeners = registered(store, 2)
    listeners[0].lead()
    store.time.run_for(100)
    listeners[0].write(TopicCreated(TOPIC), ConfigsReplaced(CONFIGS, {"a": "b"}))
    store.time.run_for(100)
    listeners[0].write(TopicDeleted("t"))
    store.time.run_for(100)
    for each in listeners:
        assert each.changes[1:] == [
            ConfigsReplaced(CONFIGS, {"a": "b"}),
            ConfigsReplaced(CONFIGS, {}),
        ]


def test_a_disconnected_session_expires_and_learns_it_after_reconnecting(
    store: SharedStore,
) -> None:
    first, second = registered(store, 2)
    first.lead()
    store.time.run_for(100)
    first.changes.clear()
    first.session.cut()
    first.write(ProducerIdsAllocated(1))
    store.time.run_for(SESSION_TIMEOUT_MS - 100)
    assert first.said == ["1.0", "ConnectionLost"]
    assert second.changes == [ControllerElected(NodeId(0))]
    store.time.run_for(200)
    assert second.changes[1:] == [ControllerGone(), BrokerGone(NodeId(0))]
    second.lead()
    store.time.run_for(100)
    assert (second.said, first.changes) == (["2.0"], [])
    first.session.heal()
    store.time.run_for(100)
    assert first.said[-1] == "lost"
    first.write(ProducerIdsAllocated(1))
    first.register()
    store.time.run_for(100)
    assert first.said[-2:] == ["ControllerFenced", "epoch 3"]


def test_a_short_disconnection_keeps_the_session_and_delays_changes(store: SharedStore) -> None:
    first, second = registered(store, 2)
    first.session.cut()
    second.session.expire()
    store.time.run_for(SESSION_TIMEOUT_MS // 2)
    assert (first.changes, second.said) == ([], ["lost"])
    first.session.heal()
    store.time.run_for(SESSION_TIMEOUT_MS)
    assert first.changes == [BrokerGone(NodeId(1))]
    assert first.said == []


def test_a_response_may_be_lost_after_a_successful_write(store: SharedStore) -> None:
    """The writer cannot know; the next reader sees the write."""
    (first,) = registered(store, 1)
    first.lead()
    store.time.run_for(100)
    first.write(ProducerIdsAllocated(7))
    while store.image.next_producer_id == 0:
        store.time.run_for(1)
    first.session.cut()
    store.time.run_for(100)
    assert first.said == ["1.0", "ConnectionLost"]
    assert store.image.next_producer_id == 7


def test_a_restarted_broker_waits_for_the_end_of_its_former_session(store: SharedStore) -> None:
    (first,) = registered(store, 1)
    first.write(ProducerIdsAllocated(1))
    first.session.crash()
    again = Listener(store, 0)
    again.register()
    store.time.run_for(100)
    assert again.said == ["ConnectionLost"]
    store.time.after(SESSION_TIMEOUT_MS, partial(again.register))
    store.time.run_for(2 * SESSION_TIMEOUT_MS)
    assert again.said[1:] == ["epoch 2"]
    # The first change says that there is no controller.
    assert [type(each) for each in again.changes[1:]] == [BrokerGone, BrokerRegistered]
    assert first.said == []
