"""Client quotas of this broker, and muting of throttled connections (KIP-219).

The response is sent at once with its throttle time; the connection is then muted for that time,
since not every client obeys it.

Note: without any quota, requests skip all of this: `Broker.quotas` is None.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headwater.common.config_types import ResourceType
from headwater.common.ports import Clock
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.metadata.changes import ConfigsReplaced, MetadataChange
from headwater.metadata.cluster_image import ClusterImage
from headwater.metadata.config_entities import entity_of
from headwater.metadata.quota_configs import quotas_in, quotas_of
from headwater.network.request_service import ServedConnection
from headwater.replication.purgatory.timer import Timer
from headwater.security.quotas.client_quota_manager import ClientQuotaManager
from headwater.security.quotas.connection_rate_quota import ConnectionRateQuota
from headwater.security.quotas.quota_entities import QuotaEntity, QuotaKey
from headwater.security.quotas.rate_quota import QuotaClient
from headwater.security.quotas.sampled_rates import SampleWindow

LONGEST_MS: Final = 2**31 - 1
"""Largest throttle_time_ms of a response."""

_MS_PER_S: Final = 1_000
_LIMITED_CLIENTS_MAX: Final = 10_000


class QuotaKind(StrEnum):
    """Kinds of quotas, by the names in Kafka's metrics."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


@dataclass(slots=True)
class ThrottleTimes:
    """Throttled requests and connections of one quota kind."""

    count: int = 0
    total_ms: int = 0
    now: int = 0


class QuotaManagers:
    """All quotas of this broker."""

    def __init__(self, settings: BrokerSettings, clock: Clock, timer: Timer) -> None:
        window = SampleWindow(
            settings.quota_window_num, settings.quota_window_size_seconds * _MS_PER_S
        )
        mutation_window = SampleWindow(
            settings.controller_quota_window_num,
            settings.controller_quota_window_size_seconds * _MS_PER_S,
        )
        most = settings.headwater_quota_entities_max
        self._clock = clock
        self._timer = timer
        self.clients = ClientQuotaManager(
            window=window, mutation_window=mutation_window, limit=most
        )
        self.connections = ConnectionRateQuota(window, limit=most)
        self.waits = {kind: ThrottleTimes() for kind in QuotaKind}
        self._limited_clients: dict[QuotaClient, bool] = {}

    def load(self, image: ClusterImage) -> None:
        """Load all quotas at startup."""
        for entity, quotas in quotas_in(image):
            self._set(entity, quotas)

    def changed(self, changes: Iterable[MetadataChange]) -> bool:
        """Apply quota changes; return whether there were any."""
        entities = list(_entities_in(changes))
        for entity, quotas in entities:
            self._set(entity, quotas)
        return bool(entities)

    @property
    def in_force(self) -> "QuotaManagers | None":
        """The value for `Broker.quotas`: None while no client has a quota."""
        return self if self.clients else None

    def is_limited(self, quota_client: QuotaClient) -> bool:
        """Whether any quota applies to this client, with a cache. Most clients have none."""
        limited = self._limited_clients.get(quota_client)
        if limited is None:
            if len(self._limited_clients) >= _LIMITED_CLIENTS_MAX:
                self._limited_clients.clear()
            limited = self._limited_clients[quota_client] = self.clients.is_limited(quota_client)
        return limited

    def now_ms(self) -> int:
        return self._clock.steady_ms()

    def mute(self, connection: ServedConnection, kind: QuotaKind, throttle_ms: int) -> None:
        """Stop reading from a connection for the throttle time."""
        waits = self.waits[kind]
        waits.count += 1
        waits.total_ms += throttle_ms
        waits.now += 1
        until_ms = self._clock.steady_ms() + throttle_ms
        connection.mute(until_ms)
        self._timer.add(until_ms, _Muted(self, connection, waits))

    def unmute(self, connection: ServedConnection) -> None:
        self._timer.completed()
        connection.unmute(self._clock.steady_ms())

    def _set(self, entity: QuotaEntity, quotas: dict[QuotaKey, float]) -> None:
        self._limited_clients.clear()
        if entity.ip is None:
            self.clients.set(entity, quotas)
        else:
            self.connections.set(entity.ip, quotas.get(QuotaKey.CONNECTION_CREATION_RATE))


class _Muted:
    """A muted connection: `headwater.replication.purgatory.timer.TimerTask`."""

    __slots__ = ("_connection", "_throttling", "_waits", "is_done")

    def __init__(
        self, throttling: QuotaManagers, connection: ServedConnection, waits: ThrottleTimes
    ) -> None:
        self._throttling = throttling
        self._connection = connection
        self._waits = waits
        self.is_done = False

    @property
    def is_disconnected(self) -> bool:
        return self._connection.is_closed

    def expire(self) -> None:
        self.is_done = True
        self._waits.now -= 1
        self._throttling.unmute(self._connection)


_OWNERS: Final = (ResourceType.USER, ResourceType.CLIENT, ResourceType.IP)


def _entities_in(
    changes: Iterable[MetadataChange],
) -> Iterator[tuple[QuotaEntity, dict[QuotaKey, float]]]:
    for change in changes:
        if isinstance(change, ConfigsReplaced) and change.resource.resource_type in _OWNERS:
            entity = entity_of(change.resource)
            if entity is not None:
                yield entity, quotas_of(change.values)
