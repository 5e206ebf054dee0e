"""All quotas of users and clients, in four kinds.

Bytes that are produced and fetched are rates; so is the time that requests take, in percent of the
one thread that serves them. Partitions that are made and deleted are tokens.
"""

from collections.abc import Mapping

from headwater.security.quotas.controller_mutation_quota import ControllerMutationQuota
from headwater.security.quotas.quota_entities import QuotaEntity, QuotaKey
from headwater.security.quotas.quota_limits import QuotaLimits
from headwater.security.quotas.rate_quota import QuotaClient, RateQuota
from headwater.security.quotas.sampled_rates import SampleWindow

_PERCENT_PER_NS = 100 / 1_000_000_000


class ClientQuotaManager:
    """See the module."""

    def __init__(self, *, window: SampleWindow, mutation_window: SampleWindow, most: int) -> None:
        """`most` entities of a kind are remembered at a time."""
        self.produce = RateQuota(window, most=most)
        self.fetch = RateQuota(window, most=most)
        # A client that took too long is asked to come back soon: Kafka does this (3.9).
        self.request = RateQuota(window, most=most, longest_ms=window.sample_ms)
        self.mutation = ControllerMutationQuota(mutation_window, most=most)
        self._limits: Mapping[QuotaKey, QuotaLimits] = {
            QuotaKey.PRODUCER_BYTE_RATE: self.produce.limits,
            QuotaKey.CONSUMER_BYTE_RATE: self.fetch.limits,
            QuotaKey.REQUEST_PERCENTAGE: self.request.limits,
            QuotaKey.CONTROLLER_MUTATION_RATE: self.mutation.limits,
        }

    def __bool__(self) -> bool:
        """Whether anybody has a quota."""
        return any(self._limits.values())

    def set(self, entity: QuotaEntity, quotas: Mapping[QuotaKey, float]) -> None:
        """These are all quotas of a user or client from now on."""
        for key, limits in self._limits.items():
            limits.set(entity, quotas.get(key))

    def is_limited(self, who: QuotaClient) -> bool:
        """Whether any quota is about this client."""
        return any(limits.of(*who) is not None for limits in self._limits.values())

    def worked(self, who: QuotaClient, work_ns: int, now_ms: int) -> int:
        """A request took so long of the loop's time; for how long its client has to wait."""
        return self.request.charge(who, work_ns * _PERCENT_PER_NS, now_ms)
