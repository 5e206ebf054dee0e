"""All scenarios by name: public functions of scenario modules with a Lab as argument."""

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType

from tests.peers.lab import Lab
from tests.peers.scenarios import (
    clients,
    cluster,
    configs,
    fetch,
    frames,
    group_configs,
    group_migration,
    groups,
    metadata,
    offsets,
    produce,
    quotas,
    topics,
    transactions,
)

Scenario = Callable[[Lab], None]
_MODULES = (
    metadata,
    topics,
    configs,
    quotas,
    group_configs,
    group_migration,
    groups,
    produce,
    fetch,
    offsets,
    cluster,
    frames,
    clients,
    transactions,
)


def _of(module: ModuleType) -> Iterator[tuple[str, Scenario]]:
    room = module.__name__.rpartition(".")[2]
    for name, function in vars(module).items():
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        parameters = inspect.signature(function).parameters.values()
        if function.__module__ == module.__name__ and [p.annotation for p in parameters] == [Lab]:
            yield f"{room}-{name}".replace("_", "-"), function


SCENARIOS: dict[str, Scenario] = {
    name: scenario for module in _MODULES for name, scenario in _of(module)
}
