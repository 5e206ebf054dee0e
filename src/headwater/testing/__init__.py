"""What users' tests import: an embedded broker or cluster, and a pytest plugin with a fixture.

    from headwater.testing import EmbeddedBroker

What a reader would get wrong: the names below are loaded when they are first used. Every run of
pytest loads this package with its plugin, and every embedded broker with its child's module, and
neither should pay for what it does not use.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.common.exceptions import BrokerDidNotStart
    from headwater.testing.embedded_broker import EmbeddedBroker
    from headwater.testing.embedded_cluster import EmbeddedCluster
    from headwater.testing.embedded_registry import EmbeddedRegistry

__all__ = ["BrokerDidNotStart", "EmbeddedBroker", "EmbeddedCluster", "EmbeddedRegistry"]


def __getattr__(name: str) -> object:
    if name == "BrokerDidNotStart":
        from headwater.common.exceptions import BrokerDidNotStart

        return BrokerDidNotStart
    if name == "EmbeddedBroker":
        from headwater.testing.embedded_broker import EmbeddedBroker

        return EmbeddedBroker
    if name == "EmbeddedCluster":
        from headwater.testing.embedded_cluster import EmbeddedCluster

        return EmbeddedCluster
    if name == "EmbeddedRegistry":
        from headwater.testing.embedded_registry import EmbeddedRegistry

        return EmbeddedRegistry
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
