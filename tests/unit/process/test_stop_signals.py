"""Stop requests by signals."""

import signal
import threading

import pytest

from headwater.process.stop_signals import StopSignals, aside

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("number", NUMBERS)
def test_early_stop_request_is_passed_on_later(number: signal.Signals) -> None:
    asked: list[bool] = []
    with StopSignals() as signals:
        signal.raise_signal(number)
        assert signals.is_stop_requested
        # A second signal ends the process.
        assert signal.getsignal(number) is signal.SIG_DFL
        signals.pass_to(lambda: asked.append(True))
    assert asked == [True]


@pytest.mark.parametrize("number", NUMBERS)
def test_waiting_work_is_asked_to_stop(number: signal.Signals) -> None:
    def work(signals: StopSignals) -> bool:
        asked = threading.Event()
        signals.pass_to(asked.set)
        signal.pthread_kill(threading.main_thread().ident or 0, number)
        return asked.wait(60)

    with StopSignals() as signals:
        assert aside(lambda: work(signals))


def test_previous_signal_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with StopSignals() as signals:
        assert [signal.getsignal(number) for number in NUMBERS] != before
    assert [signal.getsignal(number) for number in NUMBERS] == before
    assert not signals.is_stop_requested
