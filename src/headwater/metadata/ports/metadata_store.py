"""Where the cluster's facts live: a port with several homes.

`standalone_store` keeps them in a file of the only broker there is. A home on ZooKeeper, and one
day on a quorum, fits behind the same port, so nobody above it may know which one it is.

What a reader would get wrong: nothing here returns its outcome. Each call ends in exactly one of
its two callbacks, on the loop, maybe before the call returns. Writes end in the order in which they
were made. A write that fails takes all later ones with it, since those were decided on an image
that contains it; the facts of a failed write may still be found there after a restart, as when an
answer is lost on its way.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from headwater.common.exceptions import HeadwaterError
from headwater.common.ids import NodeId
from headwater.metadata.changes import MetadataChange
from headwater.metadata.cluster_image import (
    BrokerEndpoint,
    BrokerRegistration,
    ClusterImage,
    Version,
)

Failed = Callable[[HeadwaterError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """How a broker presents itself.

    `directory_id` is that of its first log directory, which one process at a time can hold: so a
    broker that comes again knows what is left of itself.
    """

    node_id: NodeId
    directory_id: str | None = None
    rack: str | None = None
    endpoints: tuple[BrokerEndpoint, ...] = ()


class StoreListener(Protocol):
    """Who is told of what happens without having asked."""

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:
        """Facts that somebody else wrote, or that follow from a session's begin or end.

        Who the controller is, or that there is none, is told to everybody, first of all and with
        every change. Configs, features and rules are told with every change, also to the broker
        whose controller wrote them; configs of a deleted topic become empty. Who else is up, which
        log directories failed, and which topics somebody wants deleted is news for the controller
        only, from its `read` on.
        """

    def session_lost(self) -> None:
        """This broker's registration and its controllership, if it had it, are gone."""

    def registration_lost(self) -> None:
        """Somebody has taken this broker for dead, though its session goes on."""


class ChangeWriter(Protocol):
    """What a controller asks of the home of the facts, once it is elected."""

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        otherwise: Failed,
    ) -> None:
        """Make facts durable, all or none. `fence` is the version that they were decided on.

        `ControllerFenced` when that is not the newest version of this controller's epoch.
        """


class MetadataStore(ChangeWriter, Protocol):
    """All that a broker and a controller ask of the home of the facts."""

    def listen(self, listener: StoreListener) -> None:
        """Whom to tell; once, before anything else."""

    def register(
        self, registration: Registration, *, then: Callable[[int], None], otherwise: Failed
    ) -> None:
        """Be there until the session ends. Gives the broker epoch, larger than all before it."""

    def become_controller(
        self, node_id: NodeId, *, then: Callable[[Version], None], otherwise: Failed
    ) -> None:
        """Take over and fence every earlier controller; `ControllerFenced` if another one leads."""

    def resign(self) -> None:
        """Be the controller no longer, so that another one can be elected, or this one anew."""

    def read(self, *, then: Callable[[ClusterImage], None], otherwise: Failed) -> None:
        """Everything that has been agreed on; writes that have not ended are not in it.

        In a cluster only the controller may ask for it.
        """

    def read_configs(self, *, then: Callable[[Sequence[MetadataChange]], None]) -> None:
        """Configs, features and rules, as facts, once they are known; from then on, changes are."""

    def report_failed_directory(self, node_id: NodeId) -> None:
        """Tell the controller that this broker has lost a log directory."""

    def close(self) -> None:
        """End the session. Writes that have not ended fail."""


class ClusterStore(MetadataStore, Protocol):
    """A store that several brokers share, each with its own session."""

    def end_registration(self, broker: BrokerRegistration) -> None:
        """For the controller: this registration's process is gone, though its session is not.

        What comes of it is told as ever. One that the store knows no more is left alone, and so is
        everything when this broker is not the controller.
        """

    def end_control(self, node_id: NodeId) -> None:
        """For everybody: the process of this controller is gone, though its session is not.

        If it is the controller still, there is none then, and the next election fences it.
        """
