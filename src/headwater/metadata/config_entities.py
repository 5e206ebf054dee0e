"""Users, client ids and IP addresses as owners of configs.

Their configs are quotas and SCRAM credentials. All configs of an entity form one set in the image
and one znode, so a change of some of them must keep the others.

Note: the name of such a resource is its path, quoted as in Kafka's znodes: `alice%20b`,
`<default>`, and for a client id of a user `alice/clients/app`.
"""

from typing import Final
from urllib.parse import quote, unquote

from headwater.common.config_types import ResourceType
from headwater.metadata.cluster_image import ConfigResource
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity

_DEFAULT: Final = "<default>"
_CLIENTS: Final = "clients"


def user_resource(name: str) -> ConfigResource:
    """Return the resource of a user's configs, including credentials."""
    return ConfigResource(ResourceType.USER, sanitized(name))


def resource_of(entity: QuotaEntity) -> ConfigResource:
    """Return the resource of an entity's quotas: user, client id, both, or IP address."""
    user, client_id, ip = entity
    if user is None:
        if ip is not None:
            return ConfigResource(ResourceType.IP, _quoted(ip))
        assert client_id is not None, "an entity needs a user, client id or IP address"
        return ConfigResource(ResourceType.CLIENT, _quoted(client_id))
    if client_id is None:
        return ConfigResource(ResourceType.USER, _quoted(user))
    return ConfigResource(ResourceType.USER, f"{_quoted(user)}/{_CLIENTS}/{_quoted(client_id)}")


def entity_of(resource: ConfigResource) -> QuotaEntity | None:
    """Return the entity of a resource; None if it is no quota entity."""
    if not is_entity_name(resource):
        return None
    match resource.resource_type, resource.name.split("/"):
        case ResourceType.IP, [ip]:
            return QuotaEntity(ip=_plain(ip))
        case ResourceType.CLIENT, [client_id]:
            return QuotaEntity(client_id=_plain(client_id))
        case ResourceType.USER, [user]:
            return QuotaEntity(user=_plain(user))
        case ResourceType.USER, [user, _, client_id]:
            return QuotaEntity(user=_plain(user), client_id=_plain(client_id))
        case _:
            return None


def is_entity_name(resource: ConfigResource) -> bool:
    """Return whether the name is a valid path of such a resource."""
    match resource.resource_type, resource.name.split("/"):
        case ResourceType.IP | ResourceType.CLIENT | ResourceType.USER, [name]:
            return bool(name)
        case ResourceType.USER, [user, folder, client_id]:
            return bool(user and client_id) and folder == _CLIENTS
        case _:
            return False


def owning_user(resource: ConfigResource) -> ConfigResource | None:
    """Return the user of a client-id-of-user resource, else None."""
    user, slash, _ = resource.name.partition("/")
    is_owned = resource.resource_type is ResourceType.USER and slash
    return ConfigResource(ResourceType.USER, user) if is_owned else None


def sanitized(name: str) -> str:
    """Quote a name as Kafka's Sanitizer: special characters percent-encoded."""
    return node_name(quote(name, safe="").replace("~", "%7E"))


def node_name(quoted: str) -> str:
    """Quote "." and "..", which ZooKeeper does not accept as znode names."""
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _quoted(name: str) -> str:
    return _DEFAULT if name == DEFAULT else sanitized(name)


def _plain(quoted: str) -> str:
    return DEFAULT if quoted == _DEFAULT else unquote(quoted)
