"""The states of a classic group, and which may follow which (GR-1).

    Empty ──join──► PreparingRebalance ──all joined──► CompletingRebalance ──leader synced──► Stable
      ▲                │        ▲                               │                               │
      └──nobody left───┘        └─────join, leave, silence──────┴───────────────────────────────┘

A record of the log only knows Stable and Empty. A group that was rebalancing when its coordinator
died is found as it was before, and its members join again.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ClassicGroupState(Enum):
    """Named as DescribeGroups and ListGroups tell it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


MAY_FOLLOW: Final[Mapping[ClassicGroupState, tuple[ClassicGroupState, ...]]] = {
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
