"""What this room asks of a ZooKeeper client: a port, and the values that go through it.

`kazoo_zookeeper` fills it with a real connection, `tests/simulation` with a tree in memory. What a
reader would get wrong: reads and writes fail differently. A read that loses its connection is asked
again by the keeper itself, since reading twice does no harm. A `multi` whose connection is lost
ends in UNKNOWN: nobody knows whether it was done, and only looking at the nodes tells.

Everything ends in exactly one callback, on the loop, never before the call has returned, and in the
order of ZooKeeper's own answers. A watch is called at most once, and also when the connection was
lost, for whatever happened meanwhile is not told: it says "look again", not what changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1


class ZooKeeperError(Enum):
    """Why something was not done."""

    NO_NODE = "there is no such node"
    NODE_EXISTS = "the node exists already"
    BAD_VERSION = "the node has another version"
    NOT_EMPTY = "the node has children"
    # The connection was lost on the way: maybe it was done.
    UNKNOWN = "the connection was lost"
    # The session is over, and with it all that was under way.
    EXPIRED = "the session has expired"
    REFUSED = "the server refuses it"


class Stat(NamedTuple):
    """What is known of a node beside its data."""

    version: int
    # The number of the transaction that made the node.
    czxid: int
    # The session that the node lives with; 0 for a lasting one.
    owner: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """A new node. An ephemeral one ends with the session; a sequential one gets a number.

    `may_exist` is for `change_writer`, which drops the operation from a `multi` that it made fail.
    """

    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False
    may_exist: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """New data for a node that has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """A node without children goes.

    `may_be_gone` is for `change_writer`, which drops the operation from a `multi` that it made
    fail.
    """

    path: str
    version: int = ANY_VERSION
    may_be_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The node has this version, else nothing of the whole is done."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class FailedOperation(NamedTuple):
    """Which operation of a `multi` failed, by its place, and why; -1 when that is not known."""

    place: int
    problem: ZooKeeperError


Watch = Callable[[], None]
Failed = Callable[[ZooKeeperError], None]


class SessionListener(Protocol):
    """Who is told of the session."""

    def session_began(self) -> None:
        """A new session; nothing is left of one before it."""

    def session_ended(self) -> None:
        """It has expired. Ephemeral nodes and watches are gone; another one is sought."""


class ZooKeeperClient(Protocol):
    """A session with ZooKeeper. Calls that come without one wait for it."""

    @property
    def session_id(self) -> int:
        """The owner of the ephemeral nodes that are made now; 0 without a session."""

    def listen(self, listener: SessionListener) -> None:
        """Whom to tell; once, before anything else."""

    def get(
        self,
        path: str,
        *,
        then: Callable[[bytes, Stat], None],
        otherwise: Failed,
        watch: Watch | None = None,
    ) -> None:
        """A node's data. A node that is not there is not watched either."""

    def exists(
        self,
        path: str,
        *,
        then: Callable[[Stat | None], None],
        otherwise: Failed,
        watch: Watch | None = None,
    ) -> None:
        """Whether there is a node. The watch stands in both cases."""

    def children(
        self,
        path: str,
        *,
        then: Callable[[list[str]], None],
        otherwise: Failed,
        watch: Watch | None = None,
    ) -> None:
        """The names of a node's children, in no order."""

    def multi(
        self,
        operations: Sequence[Operation],
        *,
        then: Callable[[], None],
        otherwise: Callable[[FailedOperation], None],
    ) -> None:
        """All or nothing."""

    def close(self) -> None:
        """End the session. What is under way ends in EXPIRED."""
