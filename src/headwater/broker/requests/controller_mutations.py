"""Apply the controller mutation quota to one request (KIP-599, QU-4).

Note: the quota is checked on the controller, but the client is throttled by the broker that it is
connected to: the response tells that broker for how long.
"""

from typing import Final

from headwater.broker.requests.call import Call
from headwater.broker.requests.controller_context import ControllerContext
from headwater.common.principal import BROKER_PRINCIPAL
from headwater.metadata.controller_result import Spend, unlimited
from headwater.protocol.api_key import ApiKey
from headwater.security.quotas.controller_mutation_quota import Allowance
from headwater.security.quotas.rate_quota import QuotaClient

_STRICT_SINCE: Final = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""Older versions cannot carry THROTTLING_QUOTA_EXCEEDED: they are served, then throttled."""


class ControllerMutations:
    """The mutation quota of one request's client."""

    __slots__ = ("_allowance", "_broker", "spend")

    def __init__(self, broker: ControllerContext, call: Call) -> None:
        self._broker = broker
        self._allowance = _allowance(broker, call)
        self.spend: Spend = unlimited if self._allowance is None else self._allowance.take

    @property
    def throttle_ms(self) -> int:
        """Throttle time of a response sent now."""
        allowance = self._allowance
        return 0 if allowance is None else allowance.throttle_ms(self._broker.clock.steady_ms())


def _allowance(broker: ControllerContext, call: Call) -> Allowance | None:
    quotas = broker.quotas
    if quotas is None or call.principal == BROKER_PRINCIPAL:
        return None
    return quotas.clients.mutation.allowance(
        QuotaClient.of(call.principal, call.client_id),
        is_strict=call.version >= _STRICT_SINCE[call.header.api.key],
        now_ms=quotas.now_ms(),
    )
