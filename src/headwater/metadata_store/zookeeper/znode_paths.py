"""Paths of znodes, as in Kafka 3.x."""

from typing import Final
from urllib.parse import quote, unquote

from headwater.common.config_types import ResourceType
from headwater.common.ids import NodeId
from headwater.metadata.cluster_image import ALL_BROKERS, ConfigResource
from headwater.metadata.config_entities import is_entity_name, node_name
from headwater.metadata_store.zookeeper import acl_znodes

CONTROLLER: Final = "/controller"
CONTROLLER_EPOCH: Final = "/controller_epoch"
BROKER_IDS: Final = "/brokers/ids"
TOPICS: Final = "/brokers/topics"
CLUSTER_ID: Final = "/cluster/id"
CONFIG_CHANGES: Final = "/config/changes"
CONFIG_CHANGE_PREFIX: Final = "/config/changes/config_change_"
DELETE_TOPICS: Final = "/admin/delete_topics"
DIRECTORY_EVENTS: Final = "/log_dir_event_notification"
DIRECTORY_EVENT_PREFIX: Final = "/log_dir_event_notification/log_dir_event_"
ADMITTED: Final = "/headwater/admitted"
PRODUCER_IDS: Final = "/latest_producer_id_block"
FEATURES: Final = "/headwater/features"
"""Not Kafka's /feature: brokers of Kafka 3.9 in ZooKeeper mode refuse to start if a feature is
finalized there.
"""

LASTING: Final = (
    "/consumers",
    "/brokers",
    BROKER_IDS,
    TOPICS,
    "/brokers/seqid",
    "/cluster",
    "/config",
    CONFIG_CHANGES,
    "/config/topics",
    "/config/brokers",
    "/config/clients",
    "/config/users",
    "/config/ips",
    "/config/groups",
    "/config/client-metrics",
    "/admin",
    DELETE_TOPICS,
    "/isr_change_notification",
    DIRECTORY_EVENTS,
    PRODUCER_IDS,
    *acl_znodes.LASTING,
    # Headwater's own, ignored by Kafka.
    "/headwater",
    ADMITTED,
)
"""Persistent znodes, parents before children."""

CONFIG_KINDS: Final = {
    ResourceType.TOPIC: "topics",
    ResourceType.BROKER: "brokers",
    ResourceType.GROUP: "groups",
    ResourceType.CLIENT_METRICS: "client-metrics",
    ResourceType.USER: "users",
    ResourceType.CLIENT: "clients",
    ResourceType.IP: "ips",
}
"""Config types and their znodes. Kafka 3.x has no groups there and ignores them."""

_TYPES_BY_KIND: Final = {kind: resource_type for resource_type, kind in CONFIG_KINDS.items()}
_DEFAULT: Final = "<default>"


def broker(node_id: NodeId) -> str:
    return f"{BROKER_IDS}/{node_id}"


def topic(name: str) -> str:
    return f"{TOPICS}/{name}"


def partitions(topic_name: str) -> str:
    return f"{TOPICS}/{topic_name}/partitions"


def partition(topic_name: str, number: int) -> str:
    return f"{TOPICS}/{topic_name}/partitions/{number}"


def state(topic_name: str, number: int) -> str:
    return f"{TOPICS}/{topic_name}/partitions/{number}/state"


def deletion(topic_name: str) -> str:
    return f"{DELETE_TOPICS}/{topic_name}"


def admitted(node_id: NodeId) -> str:
    return f"{ADMITTED}/{node_id}"


def config(resource: ConfigResource) -> str:
    return f"/config/{config_entity(resource)}"


def config_entity(resource: ConfigResource) -> str:
    """Return a config's path below /config, as in change notifications."""
    kind = CONFIG_KINDS[resource.resource_type]
    if not resource.resource_type.is_named_by_requests:
        return f"{kind}/{resource.name}"
    if resource.resource_type is ResourceType.BROKER and resource.name == ALL_BROKERS:
        return f"{kind}/{_DEFAULT}"
    # Names of topics and brokers contain no characters that this changes.
    return f"{kind}/{node_name(quote(resource.name, safe='-_.~'))}"


def client_folder(user: ConfigResource) -> str:
    """Return the parent of a user's client ids."""
    return f"{config(user)}/clients"


def resource_at(entity: str) -> ConfigResource | None:
    """Return the resource at a path below /config; None if unsupported."""
    kind, _, name = entity.partition("/")
    resource_type = _TYPES_BY_KIND.get(kind)
    if resource_type is not None and not resource_type.is_named_by_requests:
        resource = ConfigResource(resource_type, name)
        return resource if is_entity_name(resource) else None
    if resource_type is None or not name or "/" in name:
        return None
    if name == _DEFAULT:
        is_broker = resource_type is ResourceType.BROKER
        return ConfigResource(resource_type, ALL_BROKERS) if is_broker else None
    return ConfigResource(resource_type, unquote(name))
