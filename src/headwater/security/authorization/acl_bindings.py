"""ACL bindings: resource patterns and entries, with Kafka's names and numbers.

A binding is an entry on a resource pattern, for example: `User:alice` from any host is allowed to
READ topics whose names start with `pay-`.

Note: a LITERAL pattern named `*` matches every resource of its type, and `User:*` matches every
principal; both are stored like ordinary names.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from headwater.security.authorization.authorizer import Operation, ResourceKind

E = TypeVar("E", bound=IntEnum)

WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"


class PatternType(IntEnum):
    """How a pattern's name is matched. ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Permission type of an entry. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """Resources that a binding applies to."""

    kind: ResourceKind
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{kafka_name(self.kind)}:{self.pattern_type.name}:{self.name}"


class AclEntry(NamedTuple):
    """Principal (such as `User:alice`), host, operation and permission of a binding."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        words = f"{self.permission.name} {self.operation.name} to {self.principal}"
        return words if self.host == WILDCARD else f"{words} from {self.host}"


class AclBinding(NamedTuple):
    """An ACL: an entry on a resource pattern."""

    pattern: ResourcePattern
    entry: AclEntry

    def __str__(self) -> str:
        return f"{self.entry} on {self.pattern}"


class AclSet(NamedTuple):
    """All entries of one pattern, in order and without duplicates.

    `version` is the version of the znode that stores them, for conditional updates. It counts
    changes from 0 and restarts when the last entry has been removed.
    """

    entries: tuple[AclEntry, ...]
    version: int = 0


NO_ACLS: Final = AclSet(())


def kafka_name(value: IntEnum) -> str:
    """Write `TRANSACTIONAL_ID` as `TransactionalId`, as Kafka stores it."""
    return "".join(word.capitalize() for word in value.name.split("_"))


def from_kafka_name(kind: type[E], text: str) -> E:
    """Parse a name in any of Kafka's spellings; ValueError if it is unknown."""
    wanted = text.replace("_", "").upper()
    for value in kind:
        if value.name.replace("_", "") == wanted:
            return value
    raise ValueError(f"{text!r} is not one of {', '.join(kafka_name(each) for each in kind)}")


def from_code(kind: type[E], code: int) -> E:
    """Convert a number; UNKNOWN (0) for numbers unknown to this version."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)
