"""Sampled rates (QU-2) and token buckets (QU-4)."""

from headwater.security.quotas.sampled_rates import SampledRate, SampleWindow, TokenBucket

# Kafka's defaults: quota.window.num and quota.window.size.seconds.
WINDOW = SampleWindow(11, 1_000)


def test_new_rate_is_measured_over_all_samples_but_one() -> None:
    rate = SampledRate(WINDOW)
    rate.record(1_000, 0)
    assert rate.span_ms(0) == 10_000
    assert rate.per_second(0) == 100
    assert rate.per_second(500) == 1_000 * 1_000 / 10_500


def test_sample_expires_after_the_window() -> None:
    rate = SampledRate(WINDOW)
    rate.record(1_000, 0)
    rate.record(500, 5_000)
    assert rate.total(10_999) == 1_500
    assert rate.total(11_000) == 500
    assert rate.total(16_000) == 0
    assert rate.per_second(16_000) == 0


def test_values_within_a_second_are_one_sample() -> None:
    rate = SampledRate(WINDOW)
    rate.record(1, 0)
    rate.record(1, 999)
    # A sample expires by its last record.
    assert rate.total(11_998) == 2
    assert rate.total(11_999) == 0


def test_throttle_time_brings_the_rate_down_to_its_bound() -> None:
    """QU-2: (observed - limit) / limit * window."""
    rate = SampledRate(WINDOW)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(1_000, 0)
    assert rate.throttle_ms(100, 0) == 0
    rate.record(1_000, 0)
    assert rate.throttle_ms(100, 0) == 10_000
    # Until the samples fill the window, the throttle time does not decrease with time.
    assert rate.throttle_ms(100, 4_000) == 10_000
    assert rate.throttle_ms(100, 10_500) == 9_500


def test_throttle_time_can_be_computed_without_recording() -> None:
    rate = SampledRate(WINDOW)
    assert rate.throttle_ms(100, 0, more=2_000) == 10_000
    assert rate.total(0) == 0


def test_bucket_starts_full_and_may_go_below_zero_once() -> None:
    """QU-4, Kafka's own example: a burst of 560 with a limit of 500 is throttled for 12 seconds."""
    bucket = TokenBucket(SampleWindow(100, 1_000))
    assert bucket.tokens(5, 0) == 500
    bucket.take(560, 5, 0)
    assert bucket.throttle_ms(5, 0) == 12_000
    assert bucket.throttle_ms(5, 11_000) == 1_000
    assert bucket.throttle_ms(5, 12_000) == 0


def test_bucket_is_refilled_up_to_its_capacity() -> None:
    bucket = TokenBucket(WINDOW)
    bucket.take(22, 2, 0)
    assert bucket.tokens(2, 1_000) == 2
    assert bucket.tokens(2, 100_000) == 22
    # A lower quota removes tokens above its capacity.
    assert bucket.tokens(1, 100_000) == 11
