"""Who may do what to what: the question that every handler asks.

The words are Kafka's. `AllowAll` is the only answer so far; ACLs will be another.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from headwater.model.requester import Requester


class Operation(IntEnum):
    """What somebody wants to do, under Kafka's numbers."""

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


class ResourceKind(IntEnum):
    """To what, under Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Resource(NamedTuple):
    kind: ResourceKind
    name: str


CLUSTER: Final = Resource(ResourceKind.CLUSTER, "kafka-cluster")


class Authorizer(Protocol):
    """Answers without waiting: the question stands in the way of every request."""

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool: ...


class AllowAll:
    """The answer is yes."""

    __slots__ = ()

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:  # noqa: ARG002
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
    ResourceKind.GROUP: (Operation.READ, Operation.DELETE, Operation.DESCRIBE),
    ResourceKind.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceKind.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}


def operations_allowed(authorizer: Authorizer, requester: Requester, resource: Resource) -> int:
    """The bit field that answers carry as "authorized operations"."""
    bits = 0
    for operation in _BY_KIND[resource.kind]:
        if authorizer.authorize(requester, operation, resource):
            bits |= 1 << operation
    return bits
