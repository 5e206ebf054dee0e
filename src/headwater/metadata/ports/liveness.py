"""Port: detect that another broker's process has ended.

When a process ends, its connections close and its address refuses new ones at once, while its
session with ZooKeeper or with the active controller lasts for seconds. A liveness watch reports
that within a moment.

Note: silence is not reported. A stopped process, a host without power and a network partition do
not refuse connections; these are left to session timeouts. A broker that was never reached from
here is not reported either, since others may reach it.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from headwater.common.ids import NodeId


class LivenessRole(Enum):
    """What the watched broker loses when its process has ended."""

    # The controllership: every broker, or in KRaft every voter, watches the active controller.
    CONTROL = "control"
    # The registration: the active controller watches every broker.
    REGISTRATION = "registration"
    # Nothing yet: KRaft controllers watch brokers, too, and reach them before they become active.
    STANDBY = "standby"


class LivenessWatch(Protocol):
    def end(self) -> None:
        """Stop watching; may be called again."""


class Liveness(Protocol):
    """Creates liveness watches."""

    def watch(
        self, node_id: NodeId, role: LivenessRole, *, on_refused: Callable[[], None]
    ) -> LivenessWatch:
        """Call `on_refused` once when a reachable broker starts to refuse connections.

        Having been reached counts once per role, for all watches: a broker that was reported and
        not reached since is not reported again.
        """


class NoLiveness:
    """Relies on session timeouts only."""

    def watch(
        self,
        node_id: NodeId,  # noqa: ARG002
        role: LivenessRole,  # noqa: ARG002
        *,
        on_refused: Callable[[], None],  # noqa: ARG002
    ) -> LivenessWatch:
        return _NoWatch()


class _NoWatch:
    def end(self) -> None:
        """Nothing to stop."""
