"""When a sink that failed is started again, and when it is given up."""

from headwater.pipelines.run.batch_progress import BatchProgress
from headwater.pipelines.run.query_state import SinkQueryState, SinkState
from headwater.pipelines.spec.pipeline_spec import Restarts

POLICY = Restarts(max_count=2, backoff_ms=100)


def batch(number: int) -> BatchProgress:
    return BatchProgress(
        batch_id=number,
        rows=1,
        rows_per_second=1.0,
        batch_ms=1,
        lag=0,
        dropped_rows=0,
        watermark=None,
    )


def test_rests_grow_until_it_is_given_up() -> None:
    life = SinkQueryState(name="s").started().failed("first", POLICY, 1_000)
    assert (life.state, life.start_at_ms) == (SinkState.WAITING, 1_100)
    life = life.started().failed("second", POLICY, 2_000)
    assert (life.state, life.start_at_ms, life.restarts) == (SinkState.WAITING, 2_200, 1)
    life = life.started().failed("third", POLICY, 3_000)
    assert (life.state, life.error) == (SinkState.FAILED, "third")


def test_a_batch_that_was_written_makes_good_for_failures_before_it() -> None:
    life = SinkQueryState(name="s").started().progressed(batch(0)).failed("first", POLICY, 0)
    life = life.started().progressed(batch(1))
    assert (life.failures, life.error) == (0, None)
    assert life.failed("again", POLICY, 0).state is SinkState.WAITING


def test_batch_reported_again_after_a_restart_is_not_new() -> None:
    life = SinkQueryState(name="s").started().progressed(batch(4)).failed("first", POLICY, 0)
    assert life.started().progressed(batch(4)).failures == 1


def test_without_restarts_the_first_failure_is_the_last() -> None:
    life = SinkQueryState(name="s").started().failed("once", Restarts(max_count=0), 0)
    assert life.state is SinkState.FAILED
