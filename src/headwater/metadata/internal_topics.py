"""Names of internal topics, and topic names that collide.

Metric names do not distinguish `.` from `_`, so topic names that differ only there collide.
"""

from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def colliding_key(name: str) -> str | None:
    """Return the key of a topic name: equal keys collide, None never does."""
    if "." not in name and "_" not in name:
        return None
    return name.replace(".", "_")
