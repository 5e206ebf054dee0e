"""Topics of the brokers' own, and names that cannot exist together.

A metric name cannot tell a dot from an underscore, hence the collisions.
"""

from typing import Final

CLUSTER_METADATA: Final = "__cluster_metadata"
CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"

INTERNAL_TOPICS: Final = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE})


def colliding_key(name: str) -> str | None:
    """Names with equal keys cannot exist together; a name without a key collides with none."""
    if "." not in name and "_" not in name:
        return None
    return name.replace(".", "_")
