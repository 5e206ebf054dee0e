"""The ZooKeeper store: sessions, elections, fenced writes."""

import json
from dataclasses import replace

import pytest

from headwater.common.config_types import ResourceType
from headwater.common.exceptions import (
    ControllerFenced,
    DuplicateBrokerRegistration,
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
    """Write changes; return the image after them."""
    outcome = lab.write(image.version, *changes)
    lab.server.run()
    return apply(image, changes, outcome.of(Version))


def test_the_first_broker_sets_the_cluster_id_and_the_second_one_reads_it() -> None:
    first = StoreLab()
    assert first.found() == CLUSTER_ID
    assert json.loads(first.server.data("/cluster/id")) == {"version": "1", "id": CLUSTER_ID}
    second = StoreLab(1, first.server)
    assert second.found() == CLUSTER_ID


def test_the_broker_epoch_is_the_czxid_of_its_znode() -> None:
    lab = StoreLab()
    lab.found()
    epoch = lab.register(lab.registration(directory="d0")).of(int)
    node = lab.server.nodes["/brokers/ids/0"]
    assert epoch == node.stat.czxid
    assert node.stat.owner == lab.zk_client.session_id
    written = json.loads(node.data)
    assert written["endpoints"] == ["PLAINTEXT://h:9092"]
    assert written["version"] == 5


def test_a_registration_of_our_own_former_session_is_removed_at_once() -> None:
    before = StoreLab()
    before.found()
    old = before.register(before.registration(directory="d0")).of(int)
    # The process is killed: its session lives on.
    after = StoreLab(0, before.server)
    after.found()
    assert after.register(after.registration(directory="d0", port=9999)).of(int) > old
    assert after.server.nodes["/brokers/ids/0"].stat.owner == after.zk_client.session_id


def test_another_live_broker_with_our_id_is_waited_for_and_then_reported() -> None:
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
    assert "h:9093" in str(outcome.of(DuplicateBrokerRegistration))


def test_a_foreign_registration_that_ends_in_time_is_no_error() -> None:
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


def test_a_registration_whose_response_is_lost_is_recognized() -> None:
    lab = StoreLab()
    lab.found()
    lab.zk_client.fate = "lost after"
    outcome = lab.register()
    assert outcome.results == []
    lab.zk_client.connect()
    lab.server.run()
    assert outcome.of(int) == lab.server.nodes["/brokers/ids/0"].stat.czxid


def test_a_new_registration_replaces_the_one_in_progress() -> None:
    lab = StoreLab()
    lab.found()
    first = Outcome()
    lab.store.register(lab.registration(), then=first.then, on_error=first.on_error)
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


def test_an_expired_session_fails_the_cluster_setup() -> None:
    lab = StoreLab()
    outcome = Outcome()
    lab.server.run()
    lab.store.create_cluster(CLUSTER_ID, then=outcome.then, on_error=outcome.on_error)
    lab.zk_client.expire()
    outcome.of(SessionExpired)


def test_one_broker_is_elected_and_the_others_are_rejected() -> None:
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    assert first.elect().of(Version) == Version(1, 0)
    second.elect().of(ControllerFenced)
    assert first.server.data("/controller_epoch") == b"1"
    assert json.loads(first.server.data("/controller"))["brokerid"] == 0


def test_an_election_whose_response_is_lost_is_recognized() -> None:
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


def test_every_broker_learns_of_the_controller_and_of_its_absence() -> None:
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    assert second.told() == [ControllerGone()]
    first.elect()
    assert second.told() == [ControllerElected(NodeId(0))]
    first.zk_client.expire()
    assert second.told() == [ControllerGone()]


def test_after_a_resignation_another_controller_has_a_higher_epoch() -> None:
    first = StoreLab()
    second = StoreLab(1, first.server)
    first.found()
    second.found()
    first.elect()
    first.store.resign()
    assert second.told()[-1] == ControllerGone()
    assert second.elect().of(Version) == Version(2, 0)
    # Its own resignation must not remove the successor's znode.
    first.store.resign()
    first.server.run()
    assert "/controller" in first.server.nodes


@pytest.mark.parametrize("fate", ["lost before", "lost after"])
def test_a_resigning_controller_leaves_no_znode_when_its_connection_is_lost(
    fate: str,
) -> None:
    """Its session lives on, so no other broker could be elected until it ends."""
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


def test_the_next_controller_reads_everything_that_was_written() -> None:
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


def test_the_partition_epoch_is_the_version_of_the_state_znode() -> None:
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


def test_reassignments_are_stored_in_the_topic_znode() -> None:
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


def test_a_deleted_topic_leaves_no_znode_behind() -> None:
    lab, image = writing_lab()
    before = {path for path in lab.server.nodes if "config_change" not in path}
    image = write(lab, image, TopicCreated(ORDERS), ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    image = write(lab, image, TopicDeletionBegun("orders"))
    assert "/admin/delete_topics/orders" in lab.server.nodes
    write(lab, image, TopicDeleted("orders"))
    after = {path for path in lab.server.nodes if "config_change" not in path}
    assert after == before


def test_a_former_controller_is_fenced() -> None:
    lab, image = writing_lab()
    # It does not know that its session expired and another controller was elected.
    lab.server.put("/controller_epoch", b"2")
    outcome = lab.write(image.version, TopicCreated(ORDERS))
    lab.server.run()
    outcome.of(ControllerFenced)
    assert "/brokers/topics/orders" not in lab.server.nodes


def test_a_failed_write_fails_all_later_ones() -> None:
    lab, image = writing_lab()
    lab.server.put("/brokers/topics/orders")
    first = lab.write(image.version, TopicCreated(ORDERS))
    second = lab.write(image.version._replace(sequence=1), ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    lab.server.run()
    first.of(ControllerFenced)
    second.of(ControllerFenced)
    assert "/config/topics/orders" not in lab.server.nodes
    # A controller whose image is outdated must read again, as a new one does.
    assert lab.told()[-1] == ControllerGone()
    lab.elect().of(Version)


def test_changes_that_arrive_while_one_is_in_flight_share_the_next_request() -> None:
    lab, image = writing_lab()
    outcomes = []
    for sequence in range(20):
        resource = ConfigResource(ResourceType.TOPIC, f"topic-{sequence}")
        version = image.version._replace(sequence=sequence)
        outcomes.append(lab.write(version, ConfigsReplaced(resource, {"a": "b"})))
    lab.server.run()
    assert [each.of(Version).sequence for each in outcomes] == list(range(1, 21))
    # The fence, and a config and its notification for each of nineteen.
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
            on_error=outcome.on_error,
        )
    lab.server.run()
    kinds = [type(each.result) for each in outcomes]
    assert kinds == [Version, Version, ControllerFenced, ControllerFenced]


def test_a_write_whose_connection_is_lost_is_done_exactly_once() -> None:
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


def test_a_lost_write_that_was_contradicted_is_no_success() -> None:
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


def test_a_topic_too_large_for_one_request_is_written_in_several() -> None:
    lab, image = writing_lab()
    large = TopicImage(
        name="large", topic_id=TopicId(bytes(16)), partitions=ORDERS.partitions[:1] * 5_000
    )
    image = write(lab, image, TopicCreated(large))
    assert 100 < lab.zk_client.largest_multi < 5_000
    assert len(lab.server.children("/brokers/topics/large/partitions")) == 5_000


def test_a_partition_without_state_has_no_leader_and_gets_one_with_its_first_change() -> None:
    """Kafka's tools create topics like this; and a controller may die between two requests."""
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


def test_the_controller_gets_brokers_that_register_leave_and_register_again() -> None:
    lab, _ = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    epoch = other.register().of(int)
    [registered] = lab.told()
    assert isinstance(registered, BrokerRegistered)
    assert (registered.broker.node_id, registered.broker.epoch) == (1, epoch)
    # It leaves and registers again between two reads.
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


def test_every_broker_gets_changed_configs_and_features() -> None:
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


def test_dots_are_quoted_in_znode_names() -> None:
    """ZooKeeper's client rejects such a path, and with it the controller's whole write."""
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


def test_a_client_of_a_user_is_stored_below_the_user_as_kafkas_tools_expect() -> None:
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


def test_the_next_controller_finds_existing_user_znodes() -> None:
    """Kafka's tools create an empty user znode above the client's."""
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


def test_a_user_config_that_a_tool_writes_does_not_end_the_term() -> None:
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


def test_a_new_session_reports_only_changes_made_meanwhile() -> None:
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


def test_a_broker_may_request_configs_before_they_are_known() -> None:
    lab, image = writing_lab()
    write(lab, image, ConfigsReplaced(OF_ORDERS, {"a": "b"}))
    other = StoreLab(1, lab.server)
    found: list[object] = []
    other.store.read_configs(then=found.extend)
    other.found()
    assert found == [ConfigsReplaced(OF_ORDERS, {"a": "b"})]
    assert ConfigsReplaced(OF_ORDERS, {"a": "b"}) not in other.told()


def test_a_topic_deletion_by_a_tool_is_reported_to_the_controller() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.told()
    lab.server.put("/admin/delete_topics/orders")
    lab.server.put("/admin/delete_topics/nothing")
    assert TopicDeletionBegun("orders") in lab.told()
    assert "/admin/delete_topics/nothing" not in lab.server.nodes
    # The decision creates no second znode.
    image = write(lab, image, TopicDeletionBegun("orders"))
    write(lab, image, TopicDeleted("orders"))
    assert lab.server.children("/admin/delete_topics") == []


def test_a_topic_created_again_is_not_deleted_by_an_old_deletion_request() -> None:
    """The deletion request of the first topic still exists when the second one is drafted."""
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.told()
    begun = lab.write(image.version, TopicDeletionBegun("orders"))
    # Until the deletion request is written, and its watch has read the children.
    while "/admin/delete_topics/orders" not in lab.server.nodes or not lab.zk_client.has_requests:
        lab.server.run(1)
    image = apply(image, [TopicDeletionBegun("orders")], begun.of(Version))
    later = image.version._replace(sequence=image.version.sequence + 1)
    lab.write(image.version, TopicDeleted("orders"))
    created = lab.write(later, TopicCreated(replace(ORDERS, topic_id=TopicId(bytes(16)))))
    assert TopicDeletionBegun("orders") not in lab.told()
    created.of(Version)
    assert lab.server.children("/admin/delete_topics") == []


def test_a_client_and_a_tool_may_delete_the_same_topic() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    lab.told()
    lab.server.put("/admin/delete_topics/orders")
    # The watch has not fired yet.
    image = write(lab, image, TopicDeletionBegun("orders"))
    write(lab, image, TopicDeleted("orders"))
    assert lab.server.children("/admin/delete_topics") == []


def test_an_operator_may_remove_a_deletion_request_in_progress() -> None:
    lab, image = writing_lab()
    image = write(lab, image, TopicCreated(ORDERS))
    image = write(lab, image, TopicDeletionBegun("orders"))
    lab.server.remove("/admin/delete_topics/orders")
    write(lab, image, TopicDeleted("orders"))
    assert lab.server.children("/brokers/topics") == []


@pytest.mark.parametrize("fate", ["lost before", "lost after"])
def test_a_deletion_whose_response_is_lost_is_done_once(fate: str) -> None:
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


def test_a_former_controller_removes_no_notifications() -> None:
    """Otherwise it could remove a deletion request of the current controller."""
    lab, _ = writing_lab()
    # Another controller has been elected, which this one does not know yet.
    lab.server.put("/controller_epoch", b"9")
    lab.server.put("/admin/delete_topics/nothing")
    assert lab.told()[-1] == ControllerGone()
    assert lab.server.children("/admin/delete_topics") == ["nothing"]


def test_a_failed_log_directory_is_reported_to_the_controller_once() -> None:
    lab, _ = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    other.store.report_failed_directory(NodeId(1))
    assert lab.told() == [LogDirectoryFailed(NodeId(1))]
    assert lab.server.children("/log_dir_event_notification") == []
    assert lab.told() == []


def test_a_failed_log_directory_is_reported_again_after_a_lost_connection() -> None:
    """Otherwise the broker would keep leading partitions that it cannot read."""
    lab, _ = writing_lab()
    other = StoreLab(1, lab.server)
    other.found()
    other.zk_client.fate = "lost before"
    other.store.report_failed_directory(NodeId(1))
    assert lab.told() == []
    other.zk_client.connect()
    assert lab.told() == [LogDirectoryFailed(NodeId(1))]


def test_an_expired_session_ends_the_term_and_all_writes_in_flight() -> None:
    lab, image = writing_lab()
    outcome = lab.write(image.version, TopicCreated(ORDERS))
    lab.zk_client.expire()
    lab.server.run()
    outcome.of(ControllerFenced)
    assert lab.sessions_lost == 1
    late = lab.write(image.version, TopicCreated(ORDERS))
    late.of(ControllerFenced)


def test_notifications_are_removed_after_fifteen_minutes() -> None:
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


def test_a_broker_considered_dead_can_register_again_in_the_same_session() -> None:
    controller, other, broker = registered_pair()
    controller.store.end_registration(broker)
    controller.told()
    epoch = other.register(other.registration(directory="d1")).of(int)
    assert epoch > broker.epoch
    (came,) = controller.told()
    assert isinstance(came, BrokerRegistered)
    # And it is watched again.
    controller.store.end_registration(came.broker)
    controller.server.run()
    assert other.registrations_lost == 2


def test_a_newer_registration_is_not_removed() -> None:
    controller, other, broker = registered_pair()
    other.zk_client.expire()
    other.zk_client.connect()
    other.server.run()
    other.register(other.registration(directory="d1")).of(int)
    controller.told()
    controller.store.end_registration(broker)
    assert controller.told() == []
    assert other.registrations_lost == 0


def test_only_the_controller_ends_registrations() -> None:
    controller, other, broker = registered_pair()
    other.store.end_registration(broker)
    assert controller.told() == []
    # Nor a broker that does not know yet that another one is the controller.
    controller.server.remove("/controller")
    controller.server.run()
    third = StoreLab(2, controller.server)
    third.lead()
    controller.store.end_registration(broker)
    controller.server.run()
    assert "/brokers/ids/1" in controller.server.nodes


def test_any_broker_ends_the_controllership_of_a_dead_process() -> None:
    controller, other, _ = registered_pair()
    other.told()
    other.store.end_control(NodeId(0))
    assert other.told() == [ControllerGone()]
    assert controller.server.version("/controller_epoch") == 1


def test_the_controllership_of_another_broker_is_not_ended() -> None:
    controller, other, _ = registered_pair()
    other.told()
    other.store.end_control(NodeId(2))
    assert other.told() == []
    assert "/controller" in controller.server.nodes


@pytest.mark.parametrize("steps", range(8))
def test_a_controller_elected_while_its_predecessor_is_removed_stays(steps: int) -> None:
    """The fence is the epoch znode, since a new controller's znode has the old one's version."""
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


def test_an_expired_session_is_not_reported_as_a_lost_registration_too() -> None:
    _, other, _ = registered_pair()
    other.zk_client.expire()
    other.server.run()
    assert (other.sessions_lost, other.registrations_lost) == (1, 0)
