"""A consumer with workers: what ends its run. With a broker it is tried in tests/compat."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from headwater.client import ConsumedRecord, ParallelConsumer
from tests.sim.mock_cluster import MockCluster
from tests.sim.mock_reading import MockReading

PATIENCE_S = 60


@pytest.mark.parametrize("end", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_handler_that_wants_to_end_the_process_ends_the_run(end: BaseException) -> None:
    """Its worker alone would be gone, and what is in its queue would wait without end."""

    def handle(record: ConsumedRecord) -> None:
        if record.offset == 1:
            raise end

    with MockCluster(topics={"tea": 1}) as cluster:
        reading = MockReading(cluster)
        reading.append("tea", 0, count=4)
        settings = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "fetch.max.wait.ms": 10,
        }
        with ParallelConsumer(settings, workers=1) as consumer, ThreadPoolExecutor(1) as pool:
            consumer.subscribe(["tea"])
            running = pool.submit(consumer.run, handle)
            ended = running.exception(PATIENCE_S)
    assert ended is end
    assert list(reading.committed.values()) == [1]
