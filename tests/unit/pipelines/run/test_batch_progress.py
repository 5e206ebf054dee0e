"""What Spark tells of a batch, in the words of people."""

from pyspark.sql import Row

from headwater.common.ids import TopicPartition
from headwater.pipelines.run.batch_progress import BatchProgress, read_progress

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_lag_is_what_the_topics_have_and_the_batch_had_not() -> None:
    told = {
        "batchId": 7,
        "numInputRows": 100,
        "processedRowsPerSecond": 51.26,
        "durationMs": {"triggerExecution": 1950, "addBatch": 1000},
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [
            {"numRowsDroppedByWatermark": 3, "numRowsTotal": 10, "memoryUsedBytes": 1000},
            {"numRowsDroppedByWatermark": 4, "numRowsTotal": 5, "memoryUsedBytes": 24},
        ],
        "observedMetrics": {"input.t": Row(bytes=17), "dead_letters": {"count": None}},
        "sources": [
            {"endOffset": '{"t": {"0": 5, "1": 7}}', "latestOffset": '{"t": {"0": 15, "1": 7}}'},
            {"endOffset": '{"u": {"0": 1}}', "latestOffset": '{"u": {"0": 3}}'},
            {"endOffset": "12", "latestOffset": "13"},
            {"endOffset": '{"v": {"0": 1}}', "latestOffset": None},
        ],
    }
    assert read_progress(told) == BatchProgress(
        batch_id=7,
        rows=100,
        rows_per_second=51.3,
        batch_ms=1950,
        lag=12,
        dropped_rows=7,
        watermark="2026-01-01T00:00:00.000Z",
        phases_ms={"triggerExecution": 1950, "addBatch": 1000},
        state_rows=15,
        state_bytes=1024,
        ends={T0: 5, T1: 7, TopicPartition("u", 0): 1, TopicPartition("v", 0): 1},
        observed={"input.t": {"bytes": 17}, "dead_letters": {"count": 0}},
    )


def test_a_topic_that_is_read_twice_is_read_up_to_the_lower_offset() -> None:
    sources = [{"endOffset": '{"t": {"0": 5}}'}, {"endOffset": '{"t": {"0": 3}}'}]
    assert read_progress({"sources": sources}).ends == {T0: 3}


def test_what_spark_leaves_out_is_nothing() -> None:
    told = {
        "batchId": 0,
        "processedRowsPerSecond": float("nan"),
        "sources": [{"endOffset": '{"v": {"0": 1}}'}],
    }
    assert read_progress(told) == BatchProgress(
        batch_id=0,
        rows=0,
        rows_per_second=0.0,
        batch_ms=0,
        lag=None,
        dropped_rows=0,
        watermark=None,
        ends={TopicPartition("v", 0): 1},
    )
