"""Run the named benchmarks, or all except `NAMED_ONLY` ones: `python -m bench [name ...]`.

A benchmark is a title and modules with a `measure(bench)` function. The table has module names
instead of imports, so that measuring the log does not load Spark.
"""

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from bench.harness import Bench


class Benchmark(NamedTuple):
    title: str
    modules: tuple[str, ...]


BENCHMARKS: dict[str, Benchmark] = {
    "log": Benchmark("The log", ("bench.record_codecs", "bench.unified_log")),
    "net": Benchmark("The network", ("bench.network_echo",)),
    "broker": Benchmark(
        "The broker",
        ("bench.broker_footprint", "bench.broker_requests", "bench.broker_throughput"),
    ),
    "validation": Benchmark("The validation of records", ("bench.record_validation",)),
    "controller": Benchmark(
        "The controller of a large cluster", ("bench.controller_scale", "bench.metadata_log")
    ),
    "cluster": Benchmark(
        "A cluster of three brokers",
        ("bench.cluster_throughput", "bench.cluster_failover", "bench.cluster_scale"),
    ),
    "groups": Benchmark("Groups", ("bench.group_rebalances", "bench.group_requests")),
    "restart": Benchmark("A restart", ("bench.restarts",)),
    "client": Benchmark("The clients", ("bench.client_producing", "bench.client_consuming")),
    "peers": Benchmark("Headwater beside Apache Kafka", ("bench.peers",)),
    "produce": Benchmark("Producing, beside Apache Kafka", ("bench.peer_producing",)),
    "spark": Benchmark(
        "Spark", ("bench.spark_throughput", "bench.spark_overhead", "bench.spark_latency")
    ),
    "spark-latency": Benchmark("Small batches of Spark", ("bench.spark_latency",)),
    "spark-memory": Benchmark("Memory of Spark's processes", ("bench.spark_memory",)),
    "rest": Benchmark("The REST API", ("bench.rest_requests",)),
    "sql": Benchmark("SQL over topics", ("bench.sql_queries",)),
    "mirror": Benchmark("A mirror", ("bench.mirror_copying",)),
    "hostile": Benchmark("An honest client beside hostile ones", ("bench.hostile_clients",)),
    "zero-copy": Benchmark("Ways to send a file", ("bench.zero_copy",)),
    "compaction": Benchmark("Compaction", ("bench.compaction",)),
    "cold": Benchmark(
        "A lagging consumer",
        ("bench.cold_reads", "bench.throttled_cold_reads", "bench.cached_cold_reads"),
    ),
    "cores": Benchmark("Brokers on one machine", ("bench.core_throughput",)),
    "cache": Benchmark("Lagging consumers with a cache directory", ("bench.cached_cold_reads",)),
}

NAMED_ONLY = frozenset({"cache", "hostile", "produce", "spark-latency", "spark-memory"})
"""`hostile` takes over an hour, `spark-memory` one; `produce` is a part of `peers`, `spark-latency`
of `spark`, `cache` of `cold`."""


def run(names: Sequence[str], benchmarks: Mapping[str, Benchmark]) -> int:
    """Run every named benchmark; return the worst exit code."""
    unknown = [name for name in names if name not in benchmarks]
    if unknown:
        known = ", ".join(benchmarks) or "none yet"
        print(f"unknown benchmark {', '.join(unknown)}; there are: {known}", file=sys.stderr)
        return 2
    outcomes = [_run_one(name, benchmarks[name]) for name in names or _default_names(benchmarks)]
    return max(outcomes, default=0)


def _default_names(benchmarks: Mapping[str, Benchmark]) -> list[str]:
    return [name for name in benchmarks if name not in NAMED_ONLY]


def _run_one(name: str, benchmark: Benchmark) -> int:
    bench = Bench(name, benchmark.title)
    for module in benchmark.modules:
        measure: Callable[[Bench], None] = importlib.import_module(module).measure
        measure(bench)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], BENCHMARKS))
