"""Client-side assignors: range, round robin, sticky, cooperative sticky.

Start with `assignor`. All are pure functions from members to assignments.
"""

from headwater.client.assignors.assignor import Assignor, GroupMember, RebalanceProtocol
from headwater.client.assignors.cooperative_sticky_assignor import COOPERATIVE_STICKY, STICKY
from headwater.client.assignors.range_assignor import RANGE
from headwater.client.assignors.round_robin_assignor import ROUND_ROBIN

ASSIGNORS = {each.name: each for each in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)}
"""The built-in assignors, by their protocol names in JoinGroup."""

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
