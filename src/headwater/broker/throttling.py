"""The quotas that are in force on this broker, and who waits because of them (KIP-219).

The answer leaves at once and says how long its client shall wait; then nothing more is read from
the connection for that time, since not every client does as it is told. What a reader would get
wrong: without any quota there is nothing of this in a request's way. `Broker.quotas` is None then,
which is all that anybody asks.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from headwater.cluster.config_entities import entity_of
from headwater.cluster.facts import ConfigsReplaced, Fact
from headwater.cluster.image import ClusterImage
from headwater.cluster.quota_configs import quotas_in, quotas_of
from headwater.model.broker_settings import BrokerSettings
from headwater.model.config_terms import ResourceType
from headwater.model.ports import Clock
from headwater.net.service import ServedConnection
from headwater.replication.deadlines import Deadlines
from headwater.security.quotas.client_quotas import ClientQuotas
from headwater.security.quotas.connection_rates import ConnectionRates
from headwater.security.quotas.entities import QuotaEntity, QuotaKey
from headwater.security.quotas.rate_quota import Who
from headwater.security.quotas.rates import Window

LONGEST_MS: Final = 2**31 - 1
"""What an answer can say."""

_MS_PER_S: Final = 1_000
_MOST_JUDGED: Final = 10_000


class QuotaKind(StrEnum):
    """Why somebody waits, by the name of Kafka's metric."""

    PRODUCE = "Produce"
    FETCH = "Fetch"
    REQUEST = "Request"
    CONTROLLER_MUTATION = "ControllerMutation"


@dataclass(slots=True)
class Waits:
    """Those who had to wait because of one kind of quota."""

    count: int = 0
    total_ms: int = 0
    now: int = 0


class Throttling:
    """See the module."""

    def __init__(self, settings: BrokerSettings, clock: Clock, deadlines: Deadlines) -> None:
        window = Window(settings.quota_window_num, settings.quota_window_size_seconds * _MS_PER_S)
        mutation_window = Window(
            settings.controller_quota_window_num,
            settings.controller_quota_window_size_seconds * _MS_PER_S,
        )
        most = settings.headwater_quota_entities_max
        self._clock = clock
        self._deadlines = deadlines
        self.clients = ClientQuotas(window=window, mutation_window=mutation_window, most=most)
        self.connections = ConnectionRates(window, most=most)
        self.waits = {kind: Waits() for kind in QuotaKind}
        self._judged: dict[Who, bool] = {}

    def tell(self, image: ClusterImage) -> None:
        """All quotas there are at the start."""
        for entity, quotas in quotas_in(image):
            self._set(entity, quotas)

    def changed(self, facts: Iterable[Fact]) -> bool:
        """Whether any of it was about quotas."""
        entities = list(_entities_in(facts))
        for entity, quotas in entities:
            self._set(entity, quotas)
        return bool(entities)

    @property
    def in_force(self) -> "Throttling | None":
        """What a broker asks: None as long as no client has a quota."""
        return self if self.clients else None

    def is_limited(self, who: Who) -> bool:
        """Whether any quota is about this client. Most clients of a busy broker have none."""
        limited = self._judged.get(who)
        if limited is None:
            if len(self._judged) >= _MOST_JUDGED:
                self._judged.clear()
            limited = self._judged[who] = self.clients.is_limited(who)
        return limited

    def now_ms(self) -> int:
        return self._clock.steady_ms()

    def mute(self, connection: ServedConnection, kind: QuotaKind, throttle_ms: int) -> None:
        """Read nothing from a connection for that time."""
        waits = self.waits[kind]
        waits.count += 1
        waits.total_ms += throttle_ms
        waits.now += 1
        until_ms = self._clock.steady_ms() + throttle_ms
        connection.mute(until_ms)
        self._deadlines.add(until_ms, _Muted(self, connection, waits))

    def unmute(self, connection: ServedConnection) -> None:
        self._deadlines.ended()
        connection.unmute(self._clock.steady_ms())

    def _set(self, entity: QuotaEntity, quotas: dict[QuotaKey, float]) -> None:
        self._judged.clear()
        if entity.ip is None:
            self.clients.set(entity, quotas)
        else:
            self.connections.set(entity.ip, quotas.get(QuotaKey.CONNECTION_CREATION_RATE))


class _Muted:
    """A connection that waits: `headwater.replication.deadlines.Waiter`."""

    __slots__ = ("_connection", "_throttling", "_waits", "is_done")

    def __init__(self, throttling: Throttling, connection: ServedConnection, waits: Waits) -> None:
        self._throttling = throttling
        self._connection = connection
        self._waits = waits
        self.is_done = False

    @property
    def is_gone(self) -> bool:
        return self._connection.is_closed

    def expire(self) -> None:
        self.is_done = True
        self._waits.now -= 1
        self._throttling.unmute(self._connection)


_OWNERS: Final = (ResourceType.USER, ResourceType.CLIENT, ResourceType.IP)


def _entities_in(facts: Iterable[Fact]) -> Iterator[tuple[QuotaEntity, dict[QuotaKey, float]]]:
    for fact in facts:
        if isinstance(fact, ConfigsReplaced) and fact.resource.resource_type in _OWNERS:
            entity = entity_of(fact.resource)
            if entity is not None:
                yield entity, quotas_of(fact.values)
