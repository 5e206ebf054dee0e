"""What one request may make and delete of partitions, and how long its client waits then (QU-4).

What a reader would get wrong: this is asked where the decision is made, at the controller. The
client waits where its connection is: the answer tells that broker for how long.
"""

from typing import Final

from headwater.broker.node.broker import Broker
from headwater.broker.requests.call import Call
from headwater.common.principal import OURSELVES
from headwater.metadata.controller_result import Spend, unlimited
from headwater.protocol.api_key import ApiKey
from headwater.security.quotas.controller_mutation_quota import Allowance
from headwater.security.quotas.rate_quota import QuotaClient

_STRICT_SINCE: Final = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""Older versions cannot be told to come again later: they are served, and wait afterwards."""


class ControllerMutations:
    """The part of one request in the quota of its client."""

    __slots__ = ("_allowance", "_broker", "spend")

    def __init__(self, broker: Broker, call: Call) -> None:
        self._broker = broker
        self._allowance = _allowance(broker, call)
        self.spend: Spend = unlimited if self._allowance is None else self._allowance.take

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait when it is answered now."""
        allowance = self._allowance
        return 0 if allowance is None else allowance.throttle_ms(self._broker.clock.steady_ms())


def _allowance(broker: Broker, call: Call) -> Allowance | None:
    quotas = broker.quotas
    if quotas is None or call.principal == OURSELVES:
        return None
    return quotas.clients.mutation.allowance(
        QuotaClient.of(call.principal, call.client_id),
        is_strict=call.version >= _STRICT_SINCE[call.header.api.key],
        now_ms=quotas.now_ms(),
    )
