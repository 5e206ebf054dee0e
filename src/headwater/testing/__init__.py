"""Embedded brokers and clusters for tests, and a pytest plugin with a fixture.

    from headwater.testing import EmbeddedBroker

Note: the names below are imported on first use. Every run of pytest loads this package with its
plugin, and every embedded broker with its child module; neither should pay for the rest.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.common.exceptions import BrokerDidNotStart
    from headwater.testing.embedded_broker import EmbeddedBroker
    from headwater.testing.embedded_cluster import EmbeddedCluster
    from headwater.testing.embedded_registry import EmbeddedRegistry
    from headwater.testing.pipelines.pipeline_result import PipelineResult
    from headwater.testing.pipelines.pipeline_test import PipelineTest, PipelineTestFactory
    from headwater.testing.pipelines.query_runs import PipelineFailed

__all__ = [
    "BrokerDidNotStart",
    "EmbeddedBroker",
    "EmbeddedCluster",
    "EmbeddedRegistry",
    "PipelineFailed",
    "PipelineResult",
    "PipelineTest",
    "PipelineTestFactory",
]

_PIPELINES = {
    "PipelineFailed": "query_runs",
    "PipelineResult": "pipeline_result",
    "PipelineTest": "pipeline_test",
    "PipelineTestFactory": "pipeline_test",
}


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
    if name in _PIPELINES:
        from importlib import import_module

        return getattr(import_module(f"headwater.testing.pipelines.{_PIPELINES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
