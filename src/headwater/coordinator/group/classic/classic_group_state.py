"""States of a classic group and their valid transitions (GR-1).

    Empty ──join──► PreparingRebalance ──all joined──► CompletingRebalance ──leader synced──► Stable
      ▲                │        ▲                               │                               │
      └──no members────┘        └─────join, leave, timeout──────┴───────────────────────────────┘

Records in the log only have Stable and Empty. If the coordinator fails during a rebalance, the
group is loaded as it was before, and its members rejoin.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ClassicGroupState(Enum):
    """Named as in DescribeGroups and ListGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: Final[Mapping[ClassicGroupState, tuple[ClassicGroupState, ...]]] = {
    ClassicGroupState.EMPTY: (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD),
    ClassicGroupState.PREPARING_REBALANCE: (
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.EMPTY,
        ClassicGroupState.DEAD,
    ),
    ClassicGroupState.COMPLETING_REBALANCE: (
        ClassicGroupState.STABLE,
        ClassicGroupState.PREPARING_REBALANCE,
        ClassicGroupState.DEAD,
    ),
    ClassicGroupState.STABLE: (ClassicGroupState.PREPARING_REBALANCE, ClassicGroupState.DEAD),
    ClassicGroupState.DEAD: (),
}
