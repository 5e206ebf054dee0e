"""Port: the store of the cluster metadata.

`standalone_store` uses a file of the only broker, `zookeeper_store` ZooKeeper. Other layers do not
know which one they use.

Note: no call returns its result. Each ends in exactly one of its two callbacks, on the event loop,
maybe before the call returns. Writes complete in the order of their submission. A failed write
fails all later ones, since they were decided on an image that contains it. The changes of a failed
write may still be in the store after a restart, for instance if a response was lost.
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
    """What a broker registers with.

    `directory_id` is the id of its first log directory, which only one process can hold: by it a
    restarted broker recognizes its own former registration.
    """

    node_id: NodeId
    directory_id: str | None = None
    rack: str | None = None
    endpoints: tuple[BrokerEndpoint, ...] = ()


class StoreListener(Protocol):
    """Receives events of the store."""

    def changed(self, changes: Sequence[MetadataChange], version: Version) -> None:
        """Changes by another process, or caused by sessions that start or end.

        Every broker gets the controller id, or that there is none, first of all and with every
        change. Every broker gets changes of configs, features and ACLs, even if its own controller
        wrote them; the configs of a deleted topic become empty. Only the controller, from its
        `read` on, gets live brokers, failed log directories, and topics that a tool wants deleted.
        """

    def session_lost(self) -> None:
        """The session expired: this broker's registration and controllership are gone."""

    def registration_lost(self) -> None:
        """The controller removed this registration, although the session continues."""


class ChangeWriter(Protocol):
    """What an elected controller needs from the store."""

    def write(
        self,
        changes: Sequence[MetadataChange],
        *,
        fence: Version,
        then: Callable[[Version], None],
        on_error: Failed,
    ) -> None:
        """Write changes durably, all or none. `fence` is the version they were decided on.

        Fails with `ControllerFenced` if that is not the newest version of this controller's epoch.
        """


class MetadataStore(ChangeWriter, Protocol):
    """What a broker and a controller need from the store."""

    def listen(self, listener: StoreListener) -> None:
        """Set the listener; once, before anything else."""

    def register(
        self, registration: Registration, *, then: Callable[[int], None], on_error: Failed
    ) -> None:
        """Register until the session ends; return the broker epoch, larger than before."""

    def become_controller(
        self, node_id: NodeId, *, then: Callable[[Version], None], on_error: Failed
    ) -> None:
        """Become controller and fence former ones; `ControllerFenced` if there is one."""

    def resign(self) -> None:
        """Give up controllership, so that an election can follow."""

    def read(self, *, then: Callable[[ClusterImage], None], on_error: Failed) -> None:
        """Read the committed image, without writes in flight.

        In a cluster only the controller may call this.
        """

    def read_configs(self, *, then: Callable[[Sequence[MetadataChange]], None]) -> None:
        """Read configs, features and ACLs once; later changes go to the listener."""

    def report_failed_directory(self, node_id: NodeId) -> None:
        """Report to the controller that a log directory of this broker failed."""

    def close(self) -> None:
        """End the session. Writes in flight fail."""


class ClusterStore(MetadataStore, Protocol):
    """A store that several brokers share, each with its own session."""

    def end_registration(self, broker: BrokerRegistration) -> None:
        """For the controller: end the registration of a broker whose process has ended.

        The resulting change is reported to the listener as usual. Does nothing if the registration
        is unknown or this broker is not the controller.
        """

    def end_control(self, node_id: NodeId) -> None:
        """For any broker: end the controllership of a broker whose process has ended.

        If it is still the controller, there is none afterwards, and the next election fences it.
        """
