"""Histogram of durations."""

from headwater.common.latency_histogram import BUCKETS, LatencyHistogram, bucket_bound_ns


def test_durations_are_counted_below_the_bound_of_their_bucket() -> None:
    for duration_ns in (0, 1, 16_383, 16_384, 1_000_000, 60_000_000_000):
        histogram = LatencyHistogram()
        histogram.record(duration_ns)
        (index,) = [number for number, count in enumerate(histogram.buckets) if count]
        assert duration_ns < bucket_bound_ns(index)
        assert index == 0 or duration_ns >= bucket_bound_ns(index - 1)


def test_last_bucket_has_no_bound() -> None:
    histogram = LatencyHistogram()
    histogram.record(1 << 60)
    assert histogram.buckets == [0] * (BUCKETS - 1) + [1]


def test_count_sum_and_maximum() -> None:
    histogram = LatencyHistogram()
    for duration_ns in (5, 7, 6):
        histogram.record(duration_ns)
    assert (histogram.count, histogram.total_ns, histogram.max_ns) == (3, 18, 7)


def test_clock_that_was_set_back_counts_as_no_time() -> None:
    histogram = LatencyHistogram()
    histogram.record(-5)
    assert (histogram.count, histogram.total_ns) == (1, 0)
