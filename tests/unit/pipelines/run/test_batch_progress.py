"""What Spark tells of a batch, in the words of people."""

from headwater.pipelines.run.batch_progress import BatchProgress, read_progress


def test_lag_is_what_the_topics_have_and_the_batch_had_not() -> None:
    told = {
        "batchId": 7,
        "numInputRows": 100,
        "processedRowsPerSecond": 51.26,
        "durationMs": {"triggerExecution": 1950, "addBatch": 1000},
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
        "stateOperators": [{"numRowsDroppedByWatermark": 3}, {"numRowsDroppedByWatermark": 4}],
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
    )


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
    )
