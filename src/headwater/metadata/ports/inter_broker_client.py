"""The other brokers, as those see them who have something to ask: a port.

`broker` fills it with connections, the simulator with a network that loses, delays and cuts. What a
reader would get wrong: this broker is among its own colleagues, and is asked in the same way; the
controller, for one, treats the broker it lives in like every other.

Requests of one errand to one broker arrive in the order in which they were asked, over one
connection, and each ends in exactly one of its two callbacks, on the loop, never before `ask` has
returned. `otherwise` tells that nobody knows whether the request was served. Whether to ask again,
and when, is the asker's business; while a broker cannot be reached, asking fails soon.

A response is good within the callback only: its records are views of the connection's buffer.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from headwater.common.ids import NodeId
from headwater.metadata.ports.metadata_store import Failed
from headwater.protocol.older_versions import Message

Answered = Callable[[Message], None]


class Purpose(Enum):
    """What a connection is for. Errands do not wait for each other."""

    # The controller tells brokers what they hold and what the cluster looks like.
    CONTROL = "control"
    # A follower fetches from a leader.
    REPLICATION = "replication"
    # A broker asks the controller: in-sync replicas, producer ids, a clean end, a client's wish.
    PETITION = "petition"
    # A coordinator of transactions and the leaders of the partitions in them.
    TRANSACTION = "transaction"


class InterBrokerClient(Protocol):
    """Whoever can be asked, by node id."""

    def ask(
        self,
        node_id: NodeId,
        request: Message,
        *,
        purpose: Purpose,
        timeout_ms: int,
        then: Answered,
        otherwise: Failed,
    ) -> None:
        """Send a request. `ConnectionLost` or `RequestTimedOut` when no answer comes."""

    def drop(self, node_id: NodeId, purpose: Purpose) -> None:
        """Close a connection; what waits on it fails. A later `ask` opens another one."""
