"""Counters of the group coordinator, shared by all shards of a broker."""

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounters:
    """Rebalances since the broker started.

    A classic rebalance counts when its generation completes (`group-completed-rebalance-count`), a
    rebalance of a consumer group with each new group epoch (`consumer-group-rebalance-count`).
    """

    classic_rebalances: int = 0
    consumer_rebalances: int = 0
