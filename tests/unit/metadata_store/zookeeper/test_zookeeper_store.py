"""The store on ZooKeeper: sessions, elections, facts behind the fence."""

import json
from dataclasses import replace

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import (
    BrokerIdTaken,
    ControllerFenced,
    SessionExpired,
    StoreUnreachable,
)
from headwater.common.ids import NodeId, TopicId
from headwater.controller.elect_leaders import led_by
from headwater.metadata.changes import (
    BrokerAdmitted,
    BrokerGone,
    BrokerRegistered,
    ConfigsReplaced,
    ControllerElected,
    ControllerGone,
    FeatureFinalized,
    LogDirectoryFailed,
    MetadataChange,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    TopicCreated,
    TopicDeleted,
    TopicDeletionBegun,
    apply,
)
from headwater.metadata.cluster_image import (
    ALL_BROKERS,
    BrokerRegistration,
    ClusterImage,
    ConfigResource,
    PartitionRegistration,
    TopicImage,
    Version,
)
from headwater.metadata.config_entities import resource_of, user_resource
from headwater.security.quotas.quota_entities import QuotaEntity
from tests.simulation.labs.cluster_lab import CLUSTER_ID
from tests.simulation.labs.zookeeper_lab import Outcome, StoreLab

NODES = (NodeId(0), NodeId(1))
ORDERS = TopicImage(
    name="orders",
    topic_id=TopicId(bytes(range(16))),
    partitions=(
        PartitionRegistration(replicas=NODES, isr=NODES, leader=NodeId(0)),
        PartitionRegistration(replicas=NODES[::-1], isr=NODES, leader=NodeId(1)),
    ),
)
OF_ORDERS = ConfigResource(ResourceType.TOPIC, "orders")


def writing_lab() -> tuple[StoreLab, ClusterImage]:
    lab = StoreLab()
    image = lab.lead()
    return lab, image


def write(lab: StoreLab, image: ClusterImage, *changes: MetadataChange) -> ClusterImage:
    """Write facts, and what the image is after that."""
    outcome = lab.write(image.version, *changes)
    lab.server.run()
    return apply(image, changes, outcome.of(Version))


def test_the_first_broker_names_the_cluster_and_the_second_one_takes_the_name() -> None:
    first = StoreLab()
    assert first.found() == CLUSTER_ID
    assert json.loads(first.server.data("/cluster/id")) == {"version": "1", "id": CLUSTER_ID}
    second = StoreLab(1, first.server)
    assert second.found() == CLUSTER_ID


def test_a_brokers_epoch_is_the_transaction_that_made_its_node() -> None:
    lab = StoreLab()
    lab.found()
    epoch = lab.register(lab.registration(directory="d0")).of(int)
    node = lab.server.nodes["/brokers/ids/0"]
    assert epoch == node.stat.czxid
    assert node.stat.owner == lab.zk_client.session_id
    written = json.loads(node.data)
    assert written["endpoints"] == ["PLAINTEXT://h:9092"]
    assert written["version"] == 5


def test_what_is_left_of_our_own_former_session_makes_way_at_once() -> None:
    before = StoreLab()
    before.found()
    old = before.register(before.registration(directory="d0")).of(int)
    # The process is killed: its session lives on.
    after = StoreLab(0, before.server)
    after.found()
    assert after.register(after.registration(directory="d0", port=9999)).of(int) > old
    assert after.server.nodes["/brokers/ids/0"].stat.owner == after.zk_client.session_id


def test_another_live_broker_with_our_id_is_waited_for_and_then_named() -> None:
    other = StoreLab()
    other.found()
    other.register(other.registration(directory="d1", port=9093)).of(int)
    lab = StoreLab(0, other.server)
    lab.found()
    outcome = lab.register(lab.registration(directory="d0"))
    lab.ring()
    assert outcome.results == []
    lab.clock.move(60_000)
    lab.ring()
    assert "h:9093" in str(outcome.of(BrokerIdTaken))


def test_a_strangers_leftover_that_goes_in_time_is_no_error() -> None:
    other = StoreLab()
    other.found()
    other.register().of(int)
    lab = StoreLab(0, other.server)
    lab.found()
    outcome = lab.register()
    assert outcome.results == []
    other.zk_client.expire()
    lab.ring()
    assert outcome.of(int) == lab.server.nodes["/brokers/ids/0"].stat.czxid


def test_a_registration_whose_answer_is_lost_is_found_to_be_ours() -> None:
    lab = StoreLab()
    lab.found()
    lab.zk_client.fate = "lost after"
    outcome = lab.register()
    assert outcome.results == []
    lab.zk_client.connect()
    lab.server.run()
    assert outcome.of(int) == lab.server.nodes["/brokers/ids/0"].stat.czxid


def test_a_registration_that_is_begun_again_replaces_the_one_under_way() -> None:
    lab = StoreLab()
    lab.found()
    first = Outcome()
    lab.store.register(lab.registration(), then=first.then, otherwise=first.otherwise)
    epoch = lab.register().of(int)
    first.of(StoreUnreachable)
    assert lab.server.nodes["/brokers/ids/0"].stat.czxid == epoch
    # One that waits for another broker to go does not come back either.
    other = StoreLab(0, lab.server)
    other.found()
    waiting = other.register(other.registration(directory="another"))
    replaced = other.register(other.registration(directory="another"))
    waiting.of(StoreUnreachable)
    lab.zk_client.expire()
    other.ring()
    replaced.of(int)
    assert len(waiting.results) == 1


def test_founding_tells_that_its_session_has_expired() -> None:
    lab = StoreLab()
    outcome = Outcome()
    lab.server.run()
    lab.store.found(CLUSTER_ID, then=outcome.then, otherwise=outcome.otherwise)
    lab.zk_client.expire()
    outcome.of(SessionExpired)


def test_one_broker_is_elected_and_the_others_are_refused() -> None:
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    assert first.elect().of(Version) == Version(1, 0)
    second.elect().of(ControllerFenced)
    assert first.server.data("/controller_epoch") == b"1"
    assert json.loads(first.server.data("/controller"))["brokerid"] == 0


def test_a_victory_whose_answer_is_lost_is_a_victory() -> None:
    lab = StoreLab()
    lab.found()
    lab.elect().of(Version)
    lab.store.resign()
    lab.server.run()
    lab.zk_client.fate = "lost after"
    outcome = lab.elect()
    lab.zk_client.connect()
    lab.server.run()
    assert outcome.of(Version) == Version(2, 0)


def test_everybody_hears_who_controls_and_that_nobody_does() -> None:
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    assert second.told() == [ControllerGone()]
    first.elect()
    assert second.told() == [ControllerElected(NodeId(0))]
    first.zk_client.expire()
    assert second.told() == [ControllerGone()]


def test_a_controller_that_resigns_makes_way_for_another_with_a_higher_epoch() -> None:
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    first.elect()
    first.store.resign()
    assert second.told()[-1] == ControllerGone()
    assert second.elect().of(Version) == Version(2, 0)
    # Its own leaving must not take the successor's node away.
    first.store.resign()
    first.server.run()
    assert "/controller" in first.server.nodes


@pytest.mark.parametrize("fate", ["lost before", "lost after"])
def test_a_controller_that_resigns_leaves_no_node_behind_when_its_connection_is_lost(
    fate: str,
) -> None:
    """Its session lives on, so that nobody else could be elected until it ends."""
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    first.elect()
    first.zk_client.fate = fate
    first.store.resign()
    first.server.run()
    first.zk_client.connect()
    first.server.run()
    assert "/controller" not in first.server.nodes
    assert second.elect().of(Version) == Version(2, 0)


def test_all_that_is_written_is_read_by_the_next_controller() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS), ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    image = write(lab, image, PartitionsAdded("orders", (ORDERS.partitions[0],)))
    moved = led_by(image.topics["orders"].partitions[1], NodeId(0), (NodeId(0),))
    brokers = ConfigResource(ResourceType.BROKER, ALL_BROKERS)
    group = ConfigResource(ResourceType.GROUP, "a group/of many")
    image = write(
        lab,
        image,
        PartitionChanged("orders", 1, moved),
        ConfigsReplaced(brokers, {"c": "d"}),
        ConfigsReplaced(group, {"e": "f"}),
        FeatureFinalized("transaction.version", 2),
        ProducerIdsAllocated(1_000),
        BrokerAdmitted(NodeId(0), 7),
    )
    image = write(lab, image, BrokerAdmitted(NodeId(0), 8), TopicDeletionBegun("orders"))
    next_one = StoreLab(0, lab.server)
    lab.zk_client.expire()
    found = next_one.lead()
    assert found.version == Version(2, 0)
    assert found.topics["orders"] == image.topics["orders"]
    assert dict(found.configs.items()) == dict(image.configs.items())
    assert found.features == image.features
    assert found.next_producer_id == 1_000
    assert found.admitted_epochs == {NodeId(0): 8}
    assert [*found.brokers] == [NodeId(0)]


def test_a_partitions_epoch_is_the_version_of_its_state_node() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    state = "/brokers/topics/orders/partitions/0/state"
    assert lab.server.version(state) == 0
    moved = led_by(ORDERS.partitions[0], NodeId(1), NODES)
    image = write(lab, image, PartitionChanged("orders", 0, moved))
    assert lab.server.version(state) == moved.partition_epoch == 1
    assert json.loads(lab.server.data(state)) == {
        "version": 1,
        "controller_epoch": 1,
        "leader": 1,
        "leader_epoch": 1,
        "isr": [0, 1],
    }


def test_replicas_that_move_stand_in_the_topics_node() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    third = (*NODES, NodeId(2))
    moving = PartitionRegistration(
        replicas=third, isr=NODES, leader=NodeId(0), partition_epoch=1, adding=(NodeId(2),)
    )
    image = write(lab, image, PartitionChanged("orders", 0, moving))
    assert json.loads(lab.server.data("/brokers/topics/orders")) == {
        "version": 3,
        "topic_id": "AAECAwQFBgcICQoLDA0ODw",
        "partitions": {"0": [0, 1, 2], "1": [1, 0]},
        "adding_replicas": {"0": [2]},
        "removing_replicas": {},
    }


def test_a_deleted_topic_leaves_no_node_behind() -> None:
    lab, image = writing_lab()
    before = {path for path in lab.server.nodes if "config_change" not in path}
    image = write(lab, image, TopicCreated(ORDERS), ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    image = write(lab, image, TopicDeletionBegun("orders"))
    assert "/admin/delete_topics/orders" in lab.server.nodes
    write(lab, image, TopicDeleted("orders"))
    after = {path for path in lab.server.nodes if "config_change" not in path}
    assert after == before


def test_a_former_controller_writes_nothing_and_is_told_so() -> None:
    lab, image = writing_lab()
    # It does not know that its session is over, and another one has taken over.
    lab.server.put("/controller_epoch", b"2")
    outcome = lab.write(image.version, TopicCreated(ORDERS))
    lab.server.run()
    outcome.of(ControllerFenced)
    assert "/brokers/topics/orders" not in lab.server.nodes


def test_a_write_that_fails_takes_all_later_ones_with_it() -> None:
    lab, image = writing_lab()
    lab.server.put("/brokers/topics/orders")
    first = lab.write(image.version, TopicCreated(ORDERS))
    second = lab.write(image.version._replace(sequence=1), ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    lab.server.run()
    first.of(ControllerFenced)
    second.of(ControllerFenced)
    assert "/config/topics/orders" not in lab.server.nodes
    # Whoever knows less than is there must read again, as a new controller does.
    assert lab.told()[-1] == ControllerGone()
    lab.elect().of(Version)


def test_changes_that_come_while_one_is_under_way_share_the_next_request() -> None:
    lab, image = writing_lab()
    outcomes = []
    for sequence in range(20):
        resource = ConfigResource(ResourceType.TOPIC, f"topic-{sequence}")
        version = image.version._replace(sequence=sequence)
        outcomes.append(lab.write(version, ConfigsReplaced(resource, {"a": "b"})))
    lab.server.run()
    assert [each.of(Version).sequence for each in outcomes] == list(range(1, 21))
    # The fence, and a config and its note for each of nineteen.
    assert lab.zk_client.largest_multi == 1 + 2 * 19


def test_a_write_callback_that_ends_the_term_ends_each_write_of_the_group_once() -> None:
    """Otherwise the writes behind it in the same multi would fail and succeed."""
    lab, image = writing_lab()
    outcomes = [Outcome() for _ in range(4)]

    def resign(result: object) -> None:
        outcomes[1].then(result)
        lab.store.resign()

    for sequence, outcome in enumerate(outcomes):
        resource = ConfigResource(ResourceType.TOPIC, f"topic-{sequence}")
        lab.store.write(
            [ConfigsReplaced(resource, {"a": "b"})],
            fence=image.version._replace(sequence=sequence),
            then=resign if sequence == 1 else outcome.then,
            otherwise=outcome.otherwise,
        )
    lab.server.run()
    kinds = [type(each.result) for each in outcomes]
    assert kinds == [Version, Version, ControllerFenced, ControllerFenced]


def test_a_write_whose_connection_is_lost_is_done_once_whether_it_had_been_done_or_not() -> None:
    for fate in ("lost before", "lost after"):
        lab, image = writing_lab()
        image = write(lab, image, TopicCreated(ORDERS))
        lab.zk_client.fate = fate
        moved = led_by(ORDERS.partitions[0], NodeId(1), NODES)
        outcome = lab.write(image.version, PartitionChanged("orders", 0, moved))
        lab.server.run()
        assert outcome.results == []
        lab.zk_client.connect()
        lab.server.run()
        outcome.of(Version)
        assert lab.server.version("/brokers/topics/orders/partitions/0/state") == 1


def test_a_write_that_was_lost_and_then_contradicted_is_no_success() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.zk_client.fate = "lost before"
    moved = led_by(ORDERS.partitions[0], NodeId(1), NODES)
    outcome = lab.write(image.version, PartitionChanged("orders", 0, moved))
    lab.server.run()
    lab.server.put("/brokers/topics/orders/partitions/0/state", b"{}")
    lab.zk_client.connect()
    lab.server.run()
    outcome.of(ControllerFenced)


def test_a_topic_that_is_too_large_for_one_request_goes_in_several() -> None:
    lab, image = writing_lab()
    large = TopicImage(
        name="large", topic_id=TopicId(bytes(16)), partitions=ORDERS.partitions[:1] * 5_000
    )
    image = write(lab, image, TopicCreated(large))
    assert 100 < lab.zk_client.largest_multi < 5_000
    assert len(lab.server.children("/brokers/topics/large/partitions")) == 5_000


def test_a_partition_without_a_state_has_no_leader_and_gets_one_with_its_first_change() -> None:
    """Kafka's tools make topics so; and a controller may die between two requests."""
    lab = StoreLab()
    lab.found()
    lab.server.put(
        "/brokers/topics/half",
        b'{"version":3,"topic_id":"AAECAwQFBgcICQoLDA0ODw","partitions":{"0":[0],"1":[0]},'
        b'"adding_replicas":{},"removing_replicas":{}}',
    )
    lab.server.put("/brokers/topics/half/partitions/0")
    image = lab.lead()
    partitions = image.topics["half"].partitions
    assert [each.leader for each in partitions] == [-1, -1]
    for number, partition in enumerate(partitions):
        elected = led_by(partition, NodeId(0), partition.isr)
        assert (elected.leader_epoch, elected.partition_epoch) == (0, 0)
        image = write(lab, image, PartitionChanged("half", number, elected))
        assert lab.server.version(f"/brokers/topics/half/partitions/{number}/state") == 0


def test_the_controller_hears_of_brokers_that_come_go_and_come_again() -> None:
    lab, _ = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    epoch = other.register().of(int)
    [registered] = lab.told()
    assert isinstance(registered, BrokerRegistered)
    assert (registered.broker.node_id, registered.broker.epoch) == (1, epoch)
    # It goes and comes while nobody looks.
    lab.zk_client.disconnect()
    other.zk_client.expire()
    other.zk_client.connect()
    again = other.register().of(int)
    lab.zk_client.connect()
    gone, registered = lab.told()
    assert gone == BrokerGone(NodeId(1))
    assert isinstance(registered, BrokerRegistered)
    assert registered.broker.epoch == again
    other.zk_client.expire()
    assert lab.told() == [BrokerGone(NodeId(1))]


def test_everybody_hears_of_configs_that_change_and_of_features() -> None:
    lab, image = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    other.told()
    image = write(
        lab, image, ConfigsReplaced(OF_ORDERS, {"a": "b"}), FeatureFinalized("group.version", 1)
    )
    expected = [ConfigsReplaced(OF_ORDERS, {"a": "b"}), FeatureFinalized("group.version", 1)]
    assert sorted(other.told(), key=repr) == sorted(expected, key=repr)
    assert sorted(lab.told(), key=repr) == sorted(expected, key=repr)
    write(lab, image, ConfigsReplaced(OF_ORDERS, {}))
    assert other.told() == [ConfigsReplaced(OF_ORDERS, {})]


def test_no_name_is_taken_for_a_direction() -> None:
    """ZooKeeper's client refuses such a path, and with it all that the controller would write."""
    lab, image = writing_lab()
    resources = [
        *map(user_resource, (".", "..")),
        *(ConfigResource(ResourceType.GROUP, name) for name in (".", "..", "...")),
        resource_of(QuotaEntity(user="..", client_id=".")),
    ]
    image = write(lab, image, *(ConfigsReplaced(each, {"a": "b"}) for each in resources))
    lab.store.resign()
    assert StoreLab(2, lab.server).lead().configs == {each: {"a": "b"} for each in resources}


APP_OF_ALICE = ConfigResource(ResourceType.USER, "alice/clients/app")


def test_a_client_of_a_user_lies_below_the_user_where_kafkas_tools_look_for_it() -> None:
    lab, image = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    other.told()
    image = write(lab, image, ConfigsReplaced(APP_OF_ALICE, {"producer_byte_rate": "1"}))
    assert other.told() == [ConfigsReplaced(APP_OF_ALICE, {"producer_byte_rate": "1"})]
    node = lab.server.data("/config/users/alice/clients/app")
    assert json.loads(node) == {"version": 1, "config": {"producer_byte_rate": "1"}}
    alice = ConfigResource(ResourceType.USER, "alice")
    image = write(lab, image, ConfigsReplaced(alice, {"a": "b"}))
    web = ConfigResource(ResourceType.USER, "alice/clients/web")
    write(lab, image, ConfigsReplaced(web, {"c": "d"}), ConfigsReplaced(APP_OF_ALICE, {}))
    lab.store.resign()
    third = StoreLab(2, lab.server)
    assert third.lead().configs == {alice: {"a": "b"}, web: {"c": "d"}}


def test_the_next_controller_finds_the_folders_of_users_whoever_made_them() -> None:
    """Kafka's tools make a user's node without content on the way to the client's."""
    lab = StoreLab()
    lab.found()
    lab.server.put("/config/users/alice")
    lab.server.put("/config/users/alice/clients")
    lab.server.put(
        "/config/users/alice/clients/web", b'{"version":1,"config":{"consumer_byte_rate":"2"}}'
    )
    image = lab.lead()
    web = ConfigResource(ResourceType.USER, "alice/clients/web")
    assert image.configs == {web: {"consumer_byte_rate": "2"}}
    write(lab, image, ConfigsReplaced(APP_OF_ALICE, {"producer_byte_rate": "1"}))
    assert "/config/users/alice/clients/app" in lab.server.nodes


def test_what_a_tool_gives_a_user_past_the_controller_does_not_end_its_term() -> None:
    lab, image = writing_lab()
    lab.server.put("/config/users/bob", b'{"version":1,"config":{"a":"b"}}')
    lab.server.put(
        "/config/changes/config_change_0000000000", b'{"version":2,"entity_path":"users/bob"}'
    )
    bob = ConfigResource(ResourceType.USER, "bob")
    assert lab.told()[-1:] == [ConfigsReplaced(bob, {"a": "b"})]
    write(lab, image, ConfigsReplaced(bob, {"a": "b", "c": "d"}))
    node = json.loads(lab.server.data("/config/users/bob"))
    assert node["config"] == {"a": "b", "c": "d"}


def test_with_a_new_session_only_what_has_changed_meanwhile_is_told() -> None:
    lab, image = writing_lab()
    image = write(lab, image, ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    other = StoreLab(1, lab.server)
    other.found()
    other.told()
    other.zk_client.expire()
    assert other.sessions_lost == 1
    changed = ConfigsReplaced(ConfigResource(ResourceType.TOPIC, "new"), {"c": "d"})
    write(lab, image, changed)
    other.zk_client.connect()
    assert other.told() == [changed]


def test_a_broker_may_ask_for_configs_before_they_are_known() -> None:
    lab, image = writing_lab()
    write(lab, image, ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    other = StoreLab(1, lab.server)
    found: list[object] = []
    other.store.read_configs(then=found.extend)
    other.found()
    assert found == [ConfigsReplaced(OF_ORDERS, {"a": "b"})]
    assert ConfigsReplaced(OF_ORDERS, {"a": "b"}) not in other.told()


def test_a_topic_that_a_tool_wants_deleted_is_told_to_the_controller() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.told()
    lab.server.put("/admin/delete_topics/orders")
    lab.server.put("/admin/delete_topics/nothing")
    assert TopicDeletionBegun("orders") in lab.told()
    assert "/admin/delete_topics/nothing" not in lab.server.nodes
    # Deciding so makes no second node.
    image = write(lab, image, TopicDeletionBegun("orders"))
    write(lab, image, TopicDeleted("orders"))
    assert lab.server.children("/admin/delete_topics") == []


def test_a_topic_that_is_created_again_is_not_deleted_by_the_note_of_its_namesake() -> None:
    """The note of the first topic is still there when the second one is drafted."""
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.told()
    begun = lab.write(image.version, TopicDeletionBegun("orders"))
    # Until the note is written, and its watch has asked for the children.
    while "/admin/delete_topics/orders" not in lab.server.nodes or not lab.zk_client.has_requests:
        lab.server.run(1)
    image = apply(image, [TopicDeletionBegun("orders")], begun.of(Version))
    later = image.version._replace(sequence=image.version.sequence + 1)
    lab.write(image.version, TopicDeleted("orders"))
    created = lab.write(later, TopicCreated(replace(ORDERS, topic_id=TopicId(bytes(16)))))
    assert TopicDeletionBegun("orders") not in lab.told()
    created.of(Version)
    assert lab.server.children("/admin/delete_topics") == []


def test_a_client_and_a_tool_may_want_the_same_topic_deleted() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.told()
    lab.server.put("/admin/delete_topics/orders")
    # The watch is not heard yet.
    image = write(lab, image, TopicDeletionBegun("orders"))
    write(lab, image, TopicDeleted("orders"))
    assert lab.server.children("/admin/delete_topics") == []


def test_an_operator_may_remove_the_note_of_a_deletion_under_way() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    image = write(lab, image, TopicDeletionBegun("orders"))
    lab.server.remove("/admin/delete_topics/orders")
    write(lab, image, TopicDeleted("orders"))
    assert lab.server.children("/brokers/topics") == []


@pytest.mark.parametrize("fate", ["lost before", "lost after"])
def test_a_deletion_whose_answer_is_lost_is_done_once(fate: str) -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    image = write(lab, image, TopicDeletionBegun("orders"))
    lab.zk_client.fate = fate
    outcome = lab.write(image.version, TopicDeleted("orders"))
    lab.server.run()
    lab.zk_client.connect()
    lab.server.run()
    outcome.of(Version)
    assert lab.server.children("/brokers/topics") == []
    assert lab.server.children("/admin/delete_topics") == []


def test_a_former_controller_removes_no_notes() -> None:
    """Else it could remove the note of a deletion that the present controller has begun."""
    lab, _ = writing_lab()
    # Another controller has been elected, which this one has not heard of yet.
    lab.server.put("/controller_epoch", b"9")
    lab.server.put("/admin/delete_topics/nothing")
    assert lab.told()[-1] == ControllerGone()
    assert lab.server.children("/admin/delete_topics") == ["nothing"]


def test_a_failed_log_directory_is_told_to_the_controller_once() -> None:
    lab, _ = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    other.store.report_failed_directory(NodeId(1))
    assert lab.told() == [LogDirectoryFailed(NodeId(1))]
    assert lab.server.children("/log_dir_event_notification") == []
    assert lab.told() == []


def test_a_failed_log_directory_is_told_again_when_the_connection_was_lost() -> None:
    """Else the broker would go on leading what it cannot read."""
    lab, _ = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    other.zk_client.fate = "lost before"
    other.store.report_failed_directory(NodeId(1))
    assert lab.told() == []
    other.zk_client.connect()
    assert lab.told() == [LogDirectoryFailed(NodeId(1))]


def test_a_lost_session_ends_the_term_and_all_that_is_under_way() -> None:
    lab, image = writing_lab()
    outcome = lab.write(image.version, TopicCreated(ORDERS))
    lab.zk_client.expire()
    lab.server.run()
    outcome.of(ControllerFenced)
    assert lab.sessions_lost == 1
    late = lab.write(image.version, TopicCreated(ORDERS))
    late.of(ControllerFenced)


def test_notes_that_everybody_has_read_are_swept_away_after_a_quarter_of_an_hour() -> None:
    lab, image = writing_lab()
    lab.server.now_ms = lab.clock.now_ms()
    write(lab, image, ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    next_one = StoreLab(1, lab.server)
    lab.zk_client.expire()
    next_one.lead()
    assert len(lab.server.children("/config/changes")) == 1
    last = StoreLab(2, lab.server)
    next_one.zk_client.expire()
    last.clock.move(15 * 60_000 + 1)
    last.lead()
    assert lab.server.children("/config/changes") == []


def registered_pair() -> tuple[StoreLab, StoreLab, BrokerRegistration]:
    """A controller, and another broker with its registration."""
    controller = StoreLab()
    controller.lead()
    other = StoreLab(1, controller.server)
    other.found()
    epoch = other.register(other.registration(directory="d1")).of(int)
    controller.told()
    return controller, other, BrokerRegistration(node_id=NodeId(1), epoch=epoch)


def test_the_controller_ends_a_registration_before_its_session_ends() -> None:
    controller, other, broker = registered_pair()
    controller.store.end_registration(broker)
    assert controller.told() == [BrokerGone(NodeId(1))]
    assert other.registrations_lost == 1
    assert other.sessions_lost == 0


def test_a_broker_that_was_taken_for_dead_can_register_again_in_the_same_session() -> None:
    controller, other, broker = registered_pair()
    controller.store.end_registration(broker)
    controller.told()
    epoch = other.register(other.registration(directory="d1")).of(int)
    assert epoch > broker.epoch
    (came,) = controller.told()
    assert isinstance(came, BrokerRegistered)
    # And it is followed again.
    controller.store.end_registration(came.broker)
    controller.server.run()
    assert other.registrations_lost == 2


def test_a_registration_that_has_been_renewed_is_left_alone() -> None:
    controller, other, broker = registered_pair()
    other.zk_client.expire()
    other.zk_client.connect()
    other.server.run()
    other.register(other.registration(directory="d1")).of(int)
    controller.told()
    controller.store.end_registration(broker)
    assert controller.told() == []
    assert other.registrations_lost == 0


def test_who_does_not_control_ends_no_registration() -> None:
    controller, other, broker = registered_pair()
    other.store.end_registration(broker)
    assert controller.told() == []
    # Nor one who does not know yet that another one controls.
    controller.server.remove("/controller")
    controller.server.run()
    third = StoreLab(2, controller.server)
    third.lead()
    controller.store.end_registration(broker)
    controller.server.run()
    assert "/brokers/ids/1" in controller.server.nodes


def test_anybody_ends_the_control_of_one_whose_process_is_gone() -> None:
    controller, other, _ = registered_pair()
    other.told()
    other.store.end_control(NodeId(0))
    assert other.told() == [ControllerGone()]
    assert controller.server.version("/controller_epoch") == 1


def test_the_control_of_another_one_is_left_alone() -> None:
    controller, other, _ = registered_pair()
    other.told()
    other.store.end_control(NodeId(2))
    assert other.told() == []
    assert "/controller" in controller.server.nodes


@pytest.mark.parametrize("steps", range(8))
def test_a_controller_that_is_elected_while_its_forerunner_is_removed_stays(steps: int) -> None:
    """The fence is the epoch's node, since a new controller's node has the former one's version."""
    controller, other, _ = registered_pair()
    server = controller.server
    other.told()
    other.store.end_control(NodeId(0))
    server.run(steps)
    if "/controller" in server.nodes:
        server.remove("/controller")
    server.put("/controller", b'{"version":1,"brokerid":2,"timestamp":"0"}')
    server.put("/controller_epoch", b"2")
    server.run()
    assert "/controller" in server.nodes


def test_the_end_of_a_session_is_not_told_as_a_lost_registration_too() -> None:
    _, other, _ = registered_pair()
    other.zk_client.expire()
    other.server.run()
    assert (other.sessions_lost, other.registrations_lost) == (1, 0)
