"""Deadlines of delayed operations."""

from dataclasses import dataclass, field

from headwater.replication.purgatory.timer import Timer, WakeupTimer


@dataclass(eq=False)
class Patient:
    timer: Timer
    name: str
    said: list[str] = field(default_factory=list)
    is_done: bool = False
    is_disconnected: bool = False

    def expire(self) -> None:
        self.end()
        self.said.append(self.name)

    def end(self) -> None:
        self.is_done = True
        self.timer.completed()


def test_tasks_expire_in_the_order_of_their_deadlines() -> None:
    timer, said = Timer(), list[str]()
    for deadline_ms, name in ((30, "c"), (10, "a"), (20, "b"), (40, "d")):
        timer.add(deadline_ms, Patient(timer, name, said))
    timer.expire(9)
    assert said == []
    timer.expire(30)
    assert said == ["a", "b", "c"]
    assert len(timer) == 1
    assert timer.next_ms == 40


def test_a_completed_task_does_not_expire() -> None:
    timer, said = Timer(), list[str]()
    waiter = Patient(timer, "a", said)
    timer.add(10, waiter)
    waiter.end()
    timer.expire(100)
    assert said == []
    assert len(timer) == 0


def test_the_wakeup_is_set_for_the_earliest_deadline_and_only_when_it_changes() -> None:
    timer, alarms = Timer(), list[int]()
    timer.wake_with(alarms.append)
    for deadline_ms in (50, 60, 20, 30):
        timer.add(deadline_ms, Patient(timer, ""))
    assert alarms == [50, 20]


def test_a_task_added_before_the_loop_does_not_hide_later_deadlines() -> None:
    """A broker checks its ISRs before its periodic tasks start."""
    timer, alarms = Timer(), list[int]()
    timer.add(10, Patient(timer, "early"))
    timer.wake_with(alarms.append)
    assert alarms == [10]


def test_completed_tasks_with_distant_deadlines_do_not_accumulate() -> None:
    timer = Timer()
    timer.add(5, Patient(timer, "stays"))
    for _ in range(10_000):
        waiter = Patient(timer, "")
        timer.add(1_000_000, waiter)
        waiter.end()
    assert len(timer) == 1
    assert len(timer._heap) < 200
    assert timer.next_ms == 5


def test_expire_all_expires_every_waiting_task() -> None:
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


def test_tasks_of_disconnected_clients_expire_and_the_others_stay() -> None:
    """A client may request a timeout of weeks and disconnect the next second."""
    timer, said = Timer(), list[str]()
    waiters = [Patient(timer, name, said) for name in "abc"]
    for waiter in waiters:
        timer.add(2**40, waiter)
    waiters[1].is_disconnected = True
    timer.expire_disconnected()
    assert said == ["b"]
    assert len(timer) == 2
    timer.expire_disconnected()
    assert said == ["b"]


def test_a_wakeup_fires_once_at_the_time_it_was_last_set_for() -> None:
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


def test_a_cancelled_wakeup_does_not_fire() -> None:
    timer = Timer()
    rung: list[int] = []
    alarm = WakeupTimer(timer, lambda: rung.append(1))
    alarm.set(10)
    alarm.cancel()
    alarm.cancel()
    timer.expire(10)
    assert (rung, len(timer)) == ([], 0)


def test_a_wakeup_may_be_set_again_while_it_fires() -> None:
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
