"""Port: a ZooKeeper client, and the values of its interface.

`kazoo_zookeeper` implements it with a real connection, `tests/simulation` with a tree in memory.

Note: reads and writes fail differently. A read whose connection is lost is sent again by the
client. A `multi` whose connection is lost ends in UNKNOWN: only the znodes tell whether it was
done.

Every call ends in exactly one callback, on the event loop, never before the call has returned, in
the order of ZooKeeper's responses. A watch is called at most once, also after a lost connection,
since changes in between are not reported: it means "read again", not what changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

ANY_VERSION = -1


class ZooKeeperError(Enum):
    """Why an operation failed."""

    NO_NODE = "the znode does not exist"
    NODE_EXISTS = "the znode already exists"
    BAD_VERSION = "the znode has another version"
    NOT_EMPTY = "the znode has children"
    # The connection was lost; the operation may have been done.
    UNKNOWN = "the connection was lost"
    # The session expired, and with it all requests in flight.
    EXPIRED = "the session has expired"
    REJECTED = "the server rejected the request"


class Stat(NamedTuple):
    """Metadata of a znode."""

    version: int
    # Transaction that created the znode.
    czxid: int
    # Session that owns an ephemeral znode; 0 for a persistent one.
    owner: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create a znode: ephemeral (ends with the session) or sequential (numbered).

    `may_exist` is for `change_writer`, which drops the operation if it made a `multi` fail.
    """

    path: str
    data: bytes = b""
    is_ephemeral: bool = False
    is_sequential: bool = False
    may_exist: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Set the data of a znode that has this version."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a znode without children.

    `may_be_missing` is for `change_writer`, which drops the operation if it made a `multi` fail.
    """

    path: str
    version: int = ANY_VERSION
    may_be_missing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Fail the whole `multi` unless the znode has this version."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class FailedOperation(NamedTuple):
    """Index of the operation that failed in a `multi`, and why; -1 if unknown."""

    operation_index: int
    problem: ZooKeeperError


Watch = Callable[[], None]
Failed = Callable[[ZooKeeperError], None]


class SessionListener(Protocol):
    """Receives session events."""

    def session_began(self) -> None:
        """A new session; ephemeral znodes and watches of an earlier one are gone."""

    def session_ended(self) -> None:
        """The session expired; its ephemeral znodes and watches are gone. Reconnects."""


class ZooKeeperClient(Protocol):
    """A session with ZooKeeper. Calls without one wait for it."""

    @property
    def session_id(self) -> int:
        """The session that owns new ephemeral znodes; 0 without a session."""

    def listen(self, listener: SessionListener) -> None:
        """Set the listener; once, before anything else."""

    def get(
        self,
        path: str,
        *,
        then: Callable[[bytes, Stat], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        """Read a znode's data. The watch is not set if the znode does not exist."""

    def exists(
        self,
        path: str,
        *,
        then: Callable[[Stat | None], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        """Check whether a znode exists. The watch is set in both cases."""

    def children(
        self,
        path: str,
        *,
        then: Callable[[list[str]], None],
        on_error: Failed,
        watch: Watch | None = None,
    ) -> None:
        """Read the names of a znode's children, unsorted."""

    def multi(
        self,
        operations: Sequence[Operation],
        *,
        then: Callable[[], None],
        on_error: Callable[[FailedOperation], None],
    ) -> None:
        """Apply all operations or none."""

    def close(self) -> None:
        """End the session. Requests in flight end in EXPIRED."""
