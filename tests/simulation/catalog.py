"""All simulators by name, each a function of one seed.

Add a new simulator here: `make sim` and `make sim-night` use this list.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from tests.simulation.simulators import (
    active_controller,
    classic_groups,
    cluster,
    committed_offsets,
    consumer_groups,
    kraft_cluster,
    mixed_groups,
    pipelined_transactions,
    quorum,
    replication,
    storage,
    transactions,
    wired_transactions,
)


class Outcome(Protocol):
    """How a run ended; `failure` is None if every check held."""

    @property
    def trace(self) -> list[str]: ...

    @property
    def failure(self) -> str | None: ...


Simulator = Callable[[int], Outcome]

SIMULATORS: Final[Mapping[str, Simulator]] = {
    "storage": storage.run,
    "replication": replication.run,
    "quorum": quorum.run,
    "active-controller": active_controller.run,
    "cluster": cluster.run,
    "kraft-cluster": kraft_cluster.run,
    "zookeeper": cluster.run_on_zookeeper,
    "classic-groups": classic_groups.run,
    "consumer-groups": consumer_groups.run,
    "mixed-groups": mixed_groups.run,
    "offsets": committed_offsets.run,
    "transactions": transactions.run,
    "wired-transactions": wired_transactions.run,
    "pipelined-transactions": pipelined_transactions.run,
}


def named(part: str) -> dict[str, Simulator]:
    """Return simulators whose name contains a text; all if it is empty."""
    return {name: simulator for name, simulator in SIMULATORS.items() if part in name}


def replay_command(name: str, seed: int) -> str:
    return f"make sim SIM={name} SEED={seed}"
