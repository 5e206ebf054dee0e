"""The changes between two images lead from one to the other."""

import pytest

from headwater.metadata.changes import TopicCreated, TopicDeleted, apply
from headwater.metadata.cluster_image import FIRST_VERSION, ClusterImage
from headwater.metadata.image_delta import changes_between
from tests.property.test_record_translation import Cluster


def content(image: ClusterImage) -> object:
    """Everything but the order and the epochs of former brokers, which are never dropped."""
    return (
        dict(image.topics),
        dict(image.names_by_id),
        dict(image.names_by_colliding_key),
        {key: dict(values) for key, values in image.configs.items() if values},
        dict(image.features),
        dict(image.brokers),
        dict(image.fenced_brokers),
        dict(image.controllers),
        dict(image.acls),
        image.next_producer_id,
    )


@pytest.mark.parametrize("seed", range(100))
def test_changes_lead_from_any_image_to_any_later_one(seed: int) -> None:
    cluster = Cluster(seed)
    before = cluster.image
    for step in range(120):
        cluster.write(cluster.some_changes())
        if step % 12 == 0:
            changes = changes_between(before, cluster.image)
            assert content(apply(before, changes, FIRST_VERSION)) == content(cluster.image)
            assert changes_between(cluster.image, cluster.image) == []
            before = cluster.image


def test_recreated_topic_is_deleted_before_it_is_created() -> None:
    cluster = Cluster(1)
    old, new = cluster._topic("orders"), cluster._topic("orders")
    before, after = (
        apply(cluster.image, [TopicCreated(each)], FIRST_VERSION) for each in (old, new)
    )
    assert changes_between(before, after) == [TopicDeleted("orders"), TopicCreated(new)]
