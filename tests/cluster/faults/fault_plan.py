"""Sequence of faults, derived from one integer.

Note: a seed gives the same faults in the same order and of the same length, but not the same run:
brokers and clients are not deterministic.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tests.cluster.faults.links import Cut, Ends

SESSION_MS: Final = 3_000
"""The brokers' broker.session.timeout.ms or zookeeper.session.timeout.ms."""

LAG_MS: Final = 4_000
"""The brokers' replica.lag.time.max.ms."""

BROKERS: Final = (0, 1, 2)

_SESSION_S: Final = SESSION_MS / 1_000


class Store(Enum):
    """Where the cluster keeps its metadata."""

    KRAFT = "KRaft"
    ZOOKEEPER = "ZooKeeper"


class Kind(Enum):
    KILL = "kill -9"
    SLEEP = "SIGSTOP"
    RESTART = "SIGTERM"
    DISK_FULL = "disk full"
    CUT = "cut"
    ZOOKEEPER_KILLED = "kill -9 of ZooKeeper"
    ZOOKEEPER_RESTART = "ZooKeeper stopped"
    CONTROLLER_KILLED = "kill -9 of the active controller"
    CONTROLLER_SLEEP = "SIGSTOP of the active controller"
    CONTROLLER_RESTART = "SIGTERM of the active controller"


_OF_ZOOKEEPER: Final = (Kind.ZOOKEEPER_KILLED, Kind.ZOOKEEPER_RESTART)
# Their victim is known when they begin.
_OF_CONTROLLER: Final = (Kind.CONTROLLER_KILLED, Kind.CONTROLLER_SLEEP, Kind.CONTROLLER_RESTART)
KINDS: Final[dict[Store, list[Kind]]] = {
    Store.KRAFT: [each for each in Kind if each not in _OF_ZOOKEEPER],
    Store.ZOOKEEPER: [each for each in Kind if each not in _OF_CONTROLLER],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault, and how long it lasts."""

    kind: Kind
    # Affected brokers; one after the other if they are restarted.
    victims: tuple[int, ...] = ()
    links: tuple[Ends, ...] = ()
    cut: Cut = Cut.HOLD
    # Whether held bytes are lost in the end, as after a router's restart.
    drops: bool = False
    # How many bytes a file may still grow.
    room_bytes: int = 0
    # Delay before it begins, beside another one.
    delay_s: float = 0.0
    lasting_s: float

    def __str__(self) -> str:
        words = [self.kind.value]
        if self.victims:
            words.append("broker " + ",".join(map(str, self.victims)))
        if self.links:
            ends = (f"{each.source}>{_name(each)}" for each in self.links)
            words.append(f"{self.cut.value} {' '.join(ends)}{' and dropped' * self.drops}")
        if self.kind is Kind.DISK_FULL:
            words.append(f"room for {self.room_bytes} bytes")
        return f"{', '.join(words)}, {self.lasting_s:.1f} s"


@dataclass(frozen=True, slots=True)
class Round:
    """Faults that overlap, and the recovery time after them."""

    faults: tuple[Fault, ...]
    calm_s: float


def rounds(seed: int, store: Store) -> Iterator[Round]:
    """Yield rounds without end. Every kind occurs once before any occurs twice."""
    rng = random.Random(seed)
    kinds: list[Kind] = []
    while True:
        if not kinds:
            kinds = list(KINDS[store])
            rng.shuffle(kinds)
        faults = [_fault(rng, kinds.pop(), BROKERS, store)]
        if rng.random() < 0.4:
            # A second fault in another place, so that they do not interfere.
            others = [each for each in BROKERS if each not in faults[0].victims]
            beside = rng.choice([each for each in KINDS[store] if each not in _alike(faults[0])])
            if others or beside is Kind.CUT:
                faults.append(_fault(rng, beside, others, store, delay_s=rng.uniform(0, 2)))
        calm_s = rng.choice((0.0, 0.5, 2.0, 5.0))
        yield Round(tuple(faults), calm_s)


def _alike(fault: Fault) -> tuple[Kind, ...]:
    """Kinds that would interfere with this fault."""
    if fault.kind in _OF_ZOOKEEPER:
        return _OF_ZOOKEEPER
    if fault.kind in _OF_CONTROLLER:
        return tuple(each for each in Kind if each is not Kind.CUT)
    return (fault.kind, *_OF_CONTROLLER) if fault.victims else (fault.kind,)


def _fault(
    rng: random.Random,
    kind: Kind,
    candidates: Sequence[int],
    store: Store,
    *,
    delay_s: float = 0.0,
) -> Fault:
    lasting_s = rng.choice((0.2, 0.6, 1.0, 1.6, 2.5)) * _SESSION_S
    match kind:
        case Kind.CUT:
            return _cut(rng, store, lasting_s, delay_s)
        case Kind.CONTROLLER_SLEEP:
            lasting_s = rng.choice((1.5, 2.5)) * _SESSION_S
            return Fault(kind=kind, lasting_s=lasting_s, delay_s=delay_s)
        case (
            Kind.ZOOKEEPER_KILLED
            | Kind.ZOOKEEPER_RESTART
            | Kind.CONTROLLER_KILLED
            | Kind.CONTROLLER_RESTART
        ):
            return Fault(kind=kind, lasting_s=lasting_s, delay_s=delay_s)
        case Kind.RESTART:
            # In half of the cases a rolling restart of all brokers.
            count = rng.choice((1, len(candidates)))
            lasting_s = rng.choice((0.0, 1.0))
        case Kind.KILL:
            count = rng.choice((1, 1, 1, 2, 3))
        case Kind.SLEEP:
            count = rng.choice((1, 1, 2))
            lasting_s = rng.choice((1.5, 2.5)) * _SESSION_S
        case Kind.DISK_FULL:
            count = 1
    victims = tuple(rng.sample(list(candidates), min(count, len(candidates))))
    room_bytes = rng.choice((0, 3_000, 100_000)) if kind is Kind.DISK_FULL else 0
    return Fault(
        kind=kind, victims=victims, room_bytes=room_bytes, lasting_s=lasting_s, delay_s=delay_s
    )


def _cut(rng: random.Random, store: Store, lasting_s: float, delay_s: float) -> Fault:
    one, *others = rng.sample(BROKERS, len(BROKERS))
    among_brokers = [Ends(one, each) for each in others] + [Ends(each, one) for each in others]
    if store is Store.ZOOKEEPER:
        to_store = [Ends(one, None)]
    else:
        to_store = [Ends(each.source, each.target, of_quorum=True) for each in among_brokers]
    links = rng.choice(
        (
            # An isolated broker, with or without a session, and one without a session.
            among_brokers + to_store,
            among_brokers,
            to_store,
            # It sends or receives, but not both.
            among_brokers[: len(others)],
            among_brokers[len(others) :],
            # One pair.
            [Ends(one, others[0]), Ends(others[0], one)],
            # All brokers are isolated.
            [Ends(a, b) for a in BROKERS for b in BROKERS if a != b],
        )
    )
    return Fault(
        kind=Kind.CUT,
        links=tuple(links),
        cut=rng.choice((Cut.HOLD, Cut.HOLD, Cut.REFUSE, Cut.HOLD_ANSWERS, Cut.HOLD_REQUESTS)),
        drops=rng.random() < 0.5,
        lasting_s=max(lasting_s, rng.choice((0, 1.5 * LAG_MS / 1_000))),
        delay_s=delay_s,
    )


def _name(ends: Ends) -> str:
    if ends.target is None:
        return "ZooKeeper"
    return f"controller {ends.target}" if ends.of_quorum else str(ends.target)
