"""Throttle and progress of a cleaning."""

from headwater.storage.cleaner.io_throttle import CleaningProgress, IoThrottle


class FakeTime:
    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def test_throttle_keeps_its_rate() -> None:
    time = FakeTime()
    throttle = IoThrottle(1000, now=time.read, sleep=time.sleep)
    for _ in range(50):
        throttle(500)
    assert 124.0 <= time.now <= 125.0


def test_long_pause_does_not_allow_a_long_burst() -> None:
    time = FakeTime()
    throttle = IoThrottle(1000, now=time.read, sleep=time.sleep)
    time.now += 60
    throttle(1000)
    assert time.now == 160.0
    throttle(1000)
    assert time.now == 161.0


def test_progress_is_reported_in_steps() -> None:
    told: list[int] = []
    progress = CleaningProgress(100, told.append)
    for _ in range(7):
        progress(40)
    assert told == [120, 240]
