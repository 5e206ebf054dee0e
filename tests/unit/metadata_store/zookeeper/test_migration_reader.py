"""What a migration takes from the metadata in ZooKeeper."""

from headwater.common.config_types import ResourceType
from headwater.metadata.cluster_image import ConfigResource
from headwater.metadata_store.zookeeper.cluster_reader import ClusterContents
from headwater.metadata_store.zookeeper.migration_reader import ZooKeeperCluster, migrated_image


def test_configs_of_a_topic_under_deletion_are_left_out() -> None:
    """A topic that is later created with its name would inherit them."""
    gone, kept = (ConfigResource(ResourceType.TOPIC, name) for name in ("gone", "kept"))
    configs = {each: {"retention.ms": "1000"} for each in (gone, kept)}
    contents = ClusterContents(configs=configs, deletions=("gone",))
    image = migrated_image(ZooKeeperCluster(cluster_id="a", brokers=(), contents=contents))
    assert list(image.configs) == [kept]
