"""How the leader of a classic group deals partitions out: pure functions under Kafka's names."""

from headwater.client.assignors.assignor import Assignor, GroupMember, RebalanceProtocol
from headwater.client.assignors.range_assignor import RANGE
from headwater.client.assignors.round_robin import ROUND_ROBIN
from headwater.client.assignors.sticky import COOPERATIVE_STICKY, STICKY

ASSIGNORS = {each.name: each for each in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
"""The built-in ones, by the names that travel in JoinGroup."""

__all__ = [
    "ASSIGNORS",
    "COOPERATIVE_STICKY",
    "RANGE",
    "ROUND_ROBIN",
    "STICKY",
    "Assignor",
    "GroupMember",
    "RebalanceProtocol",
]
