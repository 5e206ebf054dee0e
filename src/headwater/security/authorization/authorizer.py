"""Who may do what to what: the question that every handler asks.

The words are Kafka's. `AllowAll` is the answer of a broker without rights; `acls.authorizer` goes
by rules. What a reader would get wrong: `authorize` is asked about what somebody wants to do, and a
no is written down; `allows` is asked about what they could do, for lists and for bit fields.
"""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from headwater.common.principal import Requester


class Operation(IntEnum):
    """What somebody wants to do, under Kafka's numbers. Nobody wants the first three: rules do."""

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
    """To what, under Kafka's numbers. The first two occur in filters only."""

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
    """Answers without waiting: the question stands in the way of every request."""

    @property
    def allows_everything(self) -> bool:
        """Whether nobody need ask."""

    def authorize(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        """Whether somebody may do what they want to do now."""

    def allows(self, requester: Requester, operation: Operation, resource: Resource) -> bool:
        """The same answer, for those who only want to know."""

    def authorize_any(self, requester: Requester, operation: Operation, kind: ResourceKind) -> bool:
        """Whether somebody may do this to at least one resource of a kind."""


class AllowAll:
    """The answer is yes."""

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
    """The bit field that answers carry as "authorized operations"."""
    bits = 0
    for operation in _BY_KIND[resource.kind]:
        if authorizer.allows(requester, operation, resource):
            bits |= 1 << operation
    return bits
