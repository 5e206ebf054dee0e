"""Run pipelines to their end in the tests' session, and read their output."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client import Admin, Consumer, ConsumerRecord, NewTopic, Producer, TopicPartition
from headwater.connect.pipeline_connectors import InstalledConnectors
from headwater.pipelines.check.checked_pipeline import checked, only_once
from headwater.pipelines.run.pipeline_run import supervisor_of
from headwater.pipelines.run.query_state import SinkQueryState
from headwater.pipelines.run.supervisor import Supervisor
from headwater.pipelines.spec.pipeline_spec import PipelineSpec, Restarts
from headwater.testing import EmbeddedBroker
from tests.spark.queries import TIMEOUT_S, TRIES, is_too_slow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Pair = tuple[str | None, str | None]


def make(broker: EmbeddedBroker, *topics: str, partitions: int = 2) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=each, partitions=partitions) for each in topics])


def send(
    broker: EmbeddedBroker,
    topic: str,
    pairs: list[Pair],
    headers: Mapping[str, bytes] | None = None,
) -> None:
    """Send keys and values, in this order."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in pairs:
            producer.send(
                topic,
                None if value is None else value.encode(),
                key=None if key is None else key.encode(),
                headers=list((headers or {}).items()),
            )


def read(broker: EmbeddedBroker, topic: str) -> list[ConsumerRecord]:
    """All committed records, partition by partition."""
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    ) as consumer:
        partitions = [TopicPartition(topic, each) for each in consumer.partitions_for(topic)]
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        found: list[ConsumerRecord] = []
        while any(consumer.position(each) < ends[each] for each in partitions):
            found += consumer.poll(1.0)
    return sorted(found, key=lambda each: (each.partition, each.offset))


def run_once(
    spark: "SparkSession",
    broker: EmbeddedBroker,
    file: Path,
    checkpoint: Path,
    change: Callable[[PipelineSpec], PipelineSpec] = only_once,
) -> list[SinkQueryState]:
    """Run a pipeline over what is there now; retry if Spark did not wait for a process."""
    spec = change(_spec(broker, file, checkpoint, Restarts(max_count=0)))
    for _ in range(TRIES):
        lives = _supervisor(spark, spec).run()
        if not any(is_too_slow(each.error or "") for each in lives):
            break
    return lives


@contextmanager
def running(
    spark: "SparkSession", broker: EmbeddedBroker, file: Path, checkpoint: Path
) -> Iterator[Callable[[], list[SinkQueryState]]]:
    """A pipeline that runs until the end of the block, which stops it and returns its result."""
    spec = _spec(broker, file, checkpoint, Restarts(max_count=TRIES, backoff_ms=1_000))
    supervisor = _supervisor(spark, spec)
    with ThreadPoolExecutor(1) as threads:
        run = threads.submit(supervisor.run)

        def stop() -> list[SinkQueryState]:
            supervisor.request_stop()
            return run.result(TIMEOUT_S)

        try:
            yield stop
        finally:
            supervisor.request_stop()


def await_records(broker: EmbeddedBroker, topic: str, count: int) -> list[ConsumerRecord]:
    until_s = time.monotonic() + TIMEOUT_S
    while True:
        found = read(broker, topic)
        if len(found) >= count:
            return found
        assert time.monotonic() < until_s, found


def spec_of(broker: EmbeddedBroker, file: Path, checkpoint: Path) -> PipelineSpec:
    return _spec(broker, file, checkpoint, Restarts())


def _spec(broker: EmbeddedBroker, file: Path, checkpoint: Path, restarts: Restarts) -> PipelineSpec:
    spec = checked(
        file,
        bootstrap=broker.bootstrap_servers,
        connectors=InstalledConnectors(),
        grammar=None,
        topics=None,
    )
    return replace(spec, checkpoint=str(checkpoint), restarts=restarts)


def _supervisor(spark: "SparkSession", spec: PipelineSpec) -> Supervisor:
    return supervisor_of(
        spec,
        spark,
        connectors=InstalledConnectors(),
        steady_ms=lambda: time.monotonic_ns() // 1_000_000,
        on_change=lambda _: None,
        stop_timeout_ms=TIMEOUT_S * 1_000,
    )
