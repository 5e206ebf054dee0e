"""Invalid arguments of the admin client are rejected before a request is sent."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headwater.client import Admin, ConfigResource, TopicPartition
from headwater.client.errors import InvalidArgument, InvalidTopic
from tests.simulation.fakes.mock_cluster import MockCluster

PLACE = TopicPartition("tea", 0)
# Arguments that a type checker would reject.
AnyAdmin = Any


@pytest.fixture
def admin() -> Iterator[AnyAdmin]:
    with (
        MockCluster(topics={"q": 1, "w": 1}) as cluster,
        Admin(bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=5_000) as made,
    ):
        yield made


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.create_topics("qw"),
        lambda admin: admin.delete_topics("qw"),
        lambda admin: admin.describe_topics("qw"),
        lambda admin: admin.describe_configs("qw"),
        lambda admin: admin.describe_configs([ConfigResource.topic("q")], names="qw"),
        lambda admin: admin.list_groups(states="qw"),
        lambda admin: admin.list_groups(types="qw"),
        lambda admin: admin.describe_groups("qw"),
        lambda admin: admin.delete_groups("qw"),
        lambda admin: admin.remove_members("group", "qw"),
        lambda admin: admin.list_group_offsets("group", "qw"),
        lambda admin: admin.delete_group_offsets("group", PLACE),
        lambda admin: admin.elect_leaders(PLACE),
        lambda admin: admin.list_partition_reassignments(PLACE),
        lambda admin: admin.list_transactions(states="qw"),
        lambda admin: admin.describe_transactions("qw"),
        lambda admin: admin.describe_producers(PLACE),
        lambda admin: admin.describe_log_dirs("12"),
        lambda admin: admin.create_acls("qw"),
        lambda admin: admin.delete_acls(b"qw"),
    ],
)
def test_a_string_or_partition_is_not_a_list(
    admin: AnyAdmin, call: Callable[[AnyAdmin], object]
) -> None:
    with pytest.raises(InvalidArgument, match="must be a list, not"):
        call(admin)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda admin: admin.create_topics(["z"]), "NewTopic.*'z'"),
        (lambda admin: admin.create_topic("z", partitions="3"), "partitions .*integer.*'3'"),
        (lambda admin: admin.create_topic("z", replication_factor=1.5), "integer.*1.5"),
        (lambda admin: admin.create_topic("z", configs={"retention.ms": [1]}), "retention.ms"),
        (lambda admin: admin.create_partitions({"q": "3"}), "partitions of q.*'3'"),
        (lambda admin: admin.list_offsets({PLACE: "latest"}), "-1 for the end.*'latest'"),
        (lambda admin: admin.delete_records({PLACE: -2}), "at least -1, not -2"),
        (lambda admin: admin.alter_group_offsets("group", {PLACE: -7}), "at least 0, not -7"),
        (lambda admin: admin.alter_group_offsets("group", [PLACE]), "partition: offset"),
        (lambda admin: admin.list_topics(timeout="5"), "number of seconds.*'5'"),
        (lambda admin: admin.describe_groups([5]), "cannot encode"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(
    admin: AnyAdmin, call: Callable[[AnyAdmin], object], words: str
) -> None:
    with pytest.raises(InvalidArgument, match=words):
        call(admin)


def test_a_partition_of_an_invalid_topic_name_is_rejected(admin: AnyAdmin) -> None:
    with pytest.raises(InvalidTopic):
        admin.list_offsets({(b"tea", 0): -1})
