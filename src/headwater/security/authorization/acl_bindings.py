"""Rules and what they are about, in Kafka's words and under Kafka's numbers.

A rule (an ACL) is an entry on a resource pattern: on all topics whose names begin with `pay-`,
`User:alice` from any host is allowed to READ. What a reader would get wrong: a LITERAL pattern
with the name `*` is no name but every resource of its kind, and `User:*` is everybody; both are
written like ordinary names.
"""

from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from headwater.security.authorization.authorizer import Operation, ResourceKind

E = TypeVar("E", bound=IntEnum)

WILDCARD: Final = "*"
EVERYBODY: Final = "User:*"


class PatternType(IntEnum):
    """How a pattern's name is meant. ANY and MATCH occur in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """What a rule says. ANY occurs in filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ResourcePattern(NamedTuple):
    """Which resources a rule is about."""

    kind: ResourceKind
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def __str__(self) -> str:
        return f"{kafka_name(self.kind)}:{self.pattern_type.name}:{self.name}"


class AclEntry(NamedTuple):
    """Whom a rule is about, and what it says. The principal is a text, as `User:alice`."""

    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        words = f"{self.permission.name} {self.operation.name} to {self.principal}"
        return words if self.host == WILDCARD else f"{words} from {self.host}"


class AclBinding(NamedTuple):
    """One whole rule."""

    pattern: ResourcePattern
    entry: AclEntry

    def __str__(self) -> str:
        return f"{self.entry} on {self.pattern}"


class AclSet(NamedTuple):
    """All rules of one pattern, in order and without repetition.

    `version` counts their changes from 0 on, until the last rule goes. It is the version of the
    node that ZooKeeper keeps them in, so that nobody overwrites what they have not seen.
    """

    entries: tuple[AclEntry, ...]
    version: int = 0


NO_ACLS: Final = AclSet(())


def kafka_name(value: IntEnum) -> str:
    """`TRANSACTIONAL_ID` as `TransactionalId`: how Kafka writes these names down and shows them."""
    return "".join(word.capitalize() for word in value.name.split("_"))


def from_kafka_name(kind: type[E], text: str) -> E:
    """The value with this name, in any of the ways in which Kafka writes it; else ValueError."""
    wanted = text.replace("_", "").upper()
    for value in kind:
        if value.name.replace("_", "") == wanted:
            return value
    raise ValueError(f"{text!r} is none of {', '.join(kafka_name(each) for each in kind)}")


def from_code(kind: type[E], code: int) -> E:
    """The value with this number; UNKNOWN, which is 0, for one that only newer clients know."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)
