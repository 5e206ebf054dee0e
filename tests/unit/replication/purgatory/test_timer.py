"""Requests that wait are told when their time is over, once, and cost nothing when it is not."""

from dataclasses import dataclass, field

from headwater.replication.purgatory.timer import Timer, WakeupTimer


@dataclass(eq=False)
class Patient:
    timer: Timer
    name: str
    said: list[str] = field(default_factory=list)
    is_done: bool = False
    is_gone: bool = False

    def expire(self) -> None:
        self.end()
        self.said.append(self.name)

    def end(self) -> None:
        self.is_done = True
        self.timer.ended()


def test_those_whose_time_is_over_hear_of_it_in_the_order_of_their_deadlines() -> None:
    timer, said = Timer(), list[str]()
    for deadline_ms, name in ((30, "c"), (10, "a"), (20, "b"), (40, "d")):
        timer.add(deadline_ms, Patient(timer, name, said))
    timer.expire(9)
    assert said == []
    timer.expire(30)
    assert said == ["a", "b", "c"]
    assert len(timer) == 1
    assert timer.next_ms == 40


def test_one_that_was_answered_before_its_time_is_not_told() -> None:
    timer, said = Timer(), list[str]()
    waiter = Patient(timer, "a", said)
    timer.add(10, waiter)
    waiter.end()
    timer.expire(100)
    assert said == []
    assert len(timer) == 0


def test_the_alarm_is_set_for_the_earliest_and_only_when_that_changes() -> None:
    timer, alarms = Timer(), list[int]()
    timer.wake_with(alarms.append)
    for deadline_ms in (50, 60, 20, 30):
        timer.add(deadline_ms, Patient(timer, ""))
    assert alarms == [50, 20]


def test_what_waited_before_there_was_a_timer_does_not_keep_later_ones_from_being_told() -> None:
    """A broker checks its in-sync replicas from its first moment on, long before its upkeep."""
    timer, alarms = Timer(), list[int]()
    timer.add(10, Patient(timer, "early"))
    timer.wake_with(alarms.append)
    assert alarms == [10]


def test_answered_requests_with_distant_deadlines_do_not_pile_up() -> None:
    timer = Timer()
    timer.add(5, Patient(timer, "stays"))
    for _ in range(10_000):
        waiter = Patient(timer, "")
        timer.add(1_000_000, waiter)
        waiter.end()
    assert len(timer) == 1
    assert len(timer._heap) < 200
    assert timer.next_ms == 5


def test_at_the_end_all_hear_that_their_time_is_over() -> None:
    timer, said = Timer(), list[str]()
    answered = Patient(timer, "answered", said)
    timer.add(5, answered)
    answered.end()
    for deadline_ms, name in ((30, "b"), (10, "a")):
        timer.add(deadline_ms, Patient(timer, name, said))
    timer.expire_all()
    assert said == ["a", "b"]
    assert len(timer) == 0
    assert timer.next_ms is None


def test_those_whose_clients_have_hung_up_are_ended_and_the_others_wait_on() -> None:
    """A client may ask to wait for weeks and be gone the next second."""
    timer, said = Timer(), list[str]()
    waiters = [Patient(timer, name, said) for name in "abc"]
    for waiter in waiters:
        timer.add(2**40, waiter)
    waiters[1].is_gone = True
    timer.expire_gone()
    assert said == ["b"]
    assert len(timer) == 2
    timer.expire_gone()
    assert said == ["b"]


def test_an_alarm_rings_once_at_the_time_it_was_last_set_for() -> None:
    timer = Timer()
    rung: list[bool] = []
    alarm = WakeupTimer(timer, lambda: rung.append(alarm.is_set))
    alarm.set(10)
    alarm.set(20)
    timer.expire(15)
    assert (rung, alarm.is_set) == ([], True)
    timer.expire(20)
    timer.expire(30)
    assert (rung, alarm.is_set, len(timer)) == ([False], False, 0)


def test_an_alarm_that_is_cancelled_does_not_ring() -> None:
    timer = Timer()
    rung: list[int] = []
    alarm = WakeupTimer(timer, lambda: rung.append(1))
    alarm.set(10)
    alarm.cancel()
    alarm.cancel()
    timer.expire(10)
    assert (rung, len(timer)) == ([], 0)


def test_an_alarm_may_be_set_again_while_it_rings() -> None:
    timer = Timer()
    rung: list[int] = []

    def ring() -> None:
        rung.append(1)
        alarm.set(10 + 10 * len(rung))

    alarm = WakeupTimer(timer, ring)
    alarm.set(10)
    timer.expire(10)
    assert (len(rung), alarm.is_set) == (1, True)
    timer.expire(20)
    assert len(rung) == 2
