"""Quotas of users and client ids: produce, fetch, request and controller mutation.

Produced and fetched bytes are rates, and so is request time, in percent of the broker's event loop
thread. Created and deleted partitions are taken from a token bucket.
"""

from collections.abc import Mapping

from headwater.security.quotas.controller_mutation_quota import ControllerMutationQuota
from headwater.security.quotas.quota_entities import QuotaEntity, QuotaKey
from headwater.security.quotas.quota_limits import QuotaLimits
from headwater.security.quotas.rate_quota import QuotaClient, RateQuota
from headwater.security.quotas.sampled_rates import SampleWindow

_PERCENT_PER_NS = 100 / 1_000_000_000


class ClientQuotaManager:
    def __init__(self, *, window: SampleWindow, mutation_window: SampleWindow, limit: int) -> None:
        """`limit` limits the number of entities tracked per quota type."""
        self.produce = RateQuota(window, limit=limit)
        self.fetch = RateQuota(window, limit=limit)
        # As in Kafka (3.9), a request quota throttles for at most one sample window.
        self.request = RateQuota(window, limit=limit, longest_ms=window.sample_ms)
        self.mutation = ControllerMutationQuota(mutation_window, limit=limit)
        self._limits: Mapping[QuotaKey, QuotaLimits] = {
            QuotaKey.PRODUCER_BYTE_RATE: self.produce.limits,
            QuotaKey.CONSUMER_BYTE_RATE: self.fetch.limits,
            QuotaKey.REQUEST_PERCENTAGE: self.request.limits,
            QuotaKey.CONTROLLER_MUTATION_RATE: self.mutation.limits,
        }

    def __bool__(self) -> bool:
        """Whether any quota is set."""
        return any(self._limits.values())

    def set(self, entity: QuotaEntity, quotas: Mapping[QuotaKey, float]) -> None:
        """Replace all quotas of a user or client."""
        for key, limits in self._limits.items():
            limits.set(entity, quotas.get(key))

    def is_limited(self, quota_client: QuotaClient) -> bool:
        """Whether any quota applies to this client."""
        return any(limits.of(*quota_client) is not None for limits in self._limits.values())

    def worked(self, quota_client: QuotaClient, work_ns: int, now_ms: int) -> int:
        """Record a request's time on the event loop; return the throttle time."""
        return self.request.charge(quota_client, work_ns * _PERCENT_PER_NS, now_ms)
