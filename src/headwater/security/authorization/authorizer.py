"""The authorizer interface of request handlers: operations and resources.

`AllowAll` is used without `authorizer.class.name`; `acl_authorizer` authorizes by ACLs.

Note: call `authorize` for an operation that a client requested, since it logs denials, and `allows`
to find out what would be authorized, for lists and bit fields.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from headwater.common.principal import Requester


class Operation(IntEnum):
    """ACL operations with Kafka's numbers.

    UNKNOWN, ANY and ALL occur in ACLs and filters only.
    """

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceKind(IntEnum):
    """Resource types under Kafka's numbers. The first two occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


CLUSTER: Final = Resource(ResourceKind.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
    """Must answer without blocking, since every request waits for it."""

    @property
    def allows_everything(self) -> bool:
        """Whether callers may skip the checks."""

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        """Whether the requester is authorized for an operation that it requested."""

    def allows(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        """Like `authorize`, without logging."""

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        """Whether the operation is authorized on at least one resource of this type."""


class AllowAll:
    """Authorize everything."""

    __slots__ = ()

    allows_everything = True

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:  # noqa: ARG002
        return True

    allows = authorize

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:  # noqa: ARG002
        return True


_BY_KIND: Final = {
    ResourceKind.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceKind.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceKind.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceKind.TRANSACTIONAL_ID: (
        Operation.WRITE,
        Operation.DESCRIBE,
        Operation.TWO_PHASE_COMMIT,
    ),
    ResourceKind.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceKind.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}


def operations_allowed(authorizer: Authorizer, requester: Requester, resource: Resource) -> int:
    """Bit field of the authorized operations, as responses carry it (KIP-430)."""
    bits = 0
    for operation in _BY_KIND[resource.kind]:
        if authorizer.allows(requester, operation, resource):
            bits |= 1 << operation
    return bits
