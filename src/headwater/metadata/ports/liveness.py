"""Noticing that another broker's process has ended: a port.

Whose process ends loses its connections at once, and its address refuses new ones, while its
session goes on for seconds. Whoever keeps a vigil hears of it within a moment. What a reader would
get wrong: silence says nothing here. A process that is stopped, a host without power and a network
that is cut do not refuse; for those there are sessions. And who was never reached may refuse as
long as it likes, for others may reach it.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from headwater.common.ids import NodeId


class LivenessRole(Enum):
    """What is at stake for the one who is watched."""

    # That it decides: every broker watches the controller.
    CONTROL = "control"
    # That it is there: the controller watches every broker.
    REGISTRATION = "registration"


class LivenessWatch(Protocol):
    """One that is kept."""

    def end(self) -> None:
        """Nobody wants to know any more; may be called again."""


class Liveness(Protocol):
    """Who keeps them."""

    def keep(
        self, node_id: NodeId, concern: LivenessRole, *, refused: Callable[[], None]
    ) -> LivenessWatch:
        """Tell once, later, that a broker could be reached and now refuses again and again.

        Having been reached counts once for each concern, by whichever vigil: who was taken for dead
        and cannot be reached since is not taken for dead again.
        """


class NoLiveness:
    """Only sessions tell who is gone."""

    def keep(
        self,
        node_id: NodeId,  # noqa: ARG002
        concern: LivenessRole,  # noqa: ARG002
        *,
        refused: Callable[[], None],  # noqa: ARG002
    ) -> LivenessWatch:
        return _NoVigil()


class _NoVigil:
    def end(self) -> None:
        """There is none."""
