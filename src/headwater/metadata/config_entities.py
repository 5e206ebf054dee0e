"""Users, clients and addresses as owners of configs: their quotas, and the credentials of users.

All configs of one owner are one set in the image and one node in ZooKeeper, whoever reads them, so
whoever changes some of them takes the others over. What a reader would get wrong: the name of such
a resource is its path, quoted as Kafka's nodes are: `alice%20b`, `<default>`, and for a client of a
user `alice/clients/app`.
"""

from typing import Final
from urllib.parse import quote, unquote

from headwater.common.config_types import ResourceType
from headwater.metadata.cluster_image import ConfigResource
from headwater.security.quotas.quota_entities import DEFAULT, QuotaEntity

_DEFAULT: Final = "<default>"
_CLIENTS: Final = "clients"


def user_resource(name: str) -> ConfigResource:
    """Whose configs are those of a user, credentials included."""
    return ConfigResource(ResourceType.USER, sanitized(name))


def resource_of(entity: QuotaEntity) -> ConfigResource:
    """Where the quotas of an entity stand; it names a user, a client, both, or an address."""
    user, client_id, ip = entity
    if user is None:
        if ip is not None:
            return ConfigResource(ResourceType.IP, _quoted(ip))
        assert client_id is not None, "an entity names somebody"
        return ConfigResource(ResourceType.CLIENT, _quoted(client_id))
    if client_id is None:
        return ConfigResource(ResourceType.USER, _quoted(user))
    return ConfigResource(ResourceType.USER, f"{_quoted(user)}/{_CLIENTS}/{_quoted(client_id)}")


def entity_of(resource: ConfigResource) -> QuotaEntity | None:
    """The entity whose quotas stand there; None for what is no such place."""
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
    """Whether the name is a path that such a resource can have."""
    match resource.resource_type, resource.name.split("/"):
        case ResourceType.IP | ResourceType.CLIENT | ResourceType.USER, [name]:
            return bool(name)
        case ResourceType.USER, [user, folder, client_id]:
            return bool(user and client_id) and folder == _CLIENTS
        case _:
            return False


def owning_user(resource: ConfigResource) -> ConfigResource | None:
    """The user whose client this is, where it is one."""
    user, slash, _ = resource.name.partition("/")
    is_owned = resource.resource_type is ResourceType.USER and slash
    return ConfigResource(ResourceType.USER, user) if is_owned else None


def sanitized(name: str) -> str:
    """A name as Kafka's Sanitizer writes it: a letter that is not plain as its bytes."""
    return node_name(quote(name, safe="").replace("~", "%7E"))


def node_name(quoted: str) -> str:
    """A quoted name as ZooKeeper takes it, to which two of them are directions."""
    return quoted.replace(".", "%2E") if quoted in (".", "..") else quoted


def _quoted(name: str) -> str:
    return _DEFAULT if name == DEFAULT else sanitized(name)


def _plain(quoted: str) -> str:
    return DEFAULT if quoted == _DEFAULT else unquote(quoted)
