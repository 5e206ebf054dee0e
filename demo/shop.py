"""Generate the tea shop's orders and payments from a seed, and the expected results.

Note: the shop has its own clock. Five minutes of its time are played in about twenty seconds, and
Spark computes with the timestamps in the records.
"""

import json
import math
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

TEAS: Final = {"green": 420, "black": 350, "white": 680, "oolong": 590, "herbal": 310}
OPENING: Final = datetime(2026, 1, 2, 9, tzinfo=UTC)
OPEN_S: Final = 300
WINDOW_S: Final = 10
# A later payment does not count for the order.
PAY_WITHIN_S: Final = 30
# Maximum time by which records are sent out of order.
_JITTER_S: Final = 3.0
_NEVER_PAID: Final = 0.05
_PAID_TOO_LATE: Final = 0.05


class Order(NamedTuple):
    """Order, in seconds since the shop opened."""

    order_id: int
    tea: str
    cents: int
    at_s: float


class Payment(NamedTuple):
    """Payment of an order."""

    order_id: int
    at_s: float


class Cell(NamedTuple):
    """Key of a result: one tea in one window."""

    window_s: int
    tea: str


class Revenue(NamedTuple):
    """Number and sum of the paid orders."""

    orders: int
    cents: int


@dataclass(frozen=True, slots=True)
class Sending:
    """Records sent at once: two lists of (key, value)."""

    orders: list[tuple[bytes, bytes]]
    payments: list[tuple[bytes, bytes]]
    # A dummy order that only advances the watermark.
    is_closing: bool = False


@dataclass(frozen=True, slots=True)
class Day:
    """All orders and payments of a day."""

    orders: list[Order]
    payments: list[Payment]

    def expected(self) -> dict[Cell, Revenue]:
        """Compute the expected result in plain Python: orders paid in time, by window."""
        paid_s = {payment.order_id: payment.at_s for payment in self.payments}
        cents: dict[Cell, list[int]] = defaultdict(list)
        for order in self.orders:
            at_s = paid_s.get(order.order_id)
            if at_s is not None and _is_in_time(order, at_s):
                window_s = int(order.at_s // WINDOW_S) * WINDOW_S
                cents[Cell(window_s, order.tea)].append(order.cents)
        return {cell: Revenue(len(paid), sum(paid)) for cell, paid in cents.items()}

    def sendings(self, count: int, rng: random.Random) -> Iterator[Sending]:
        """Split the day into equal parts, with records slightly out of order."""
        last_s = max(payment.at_s for payment in self.payments) + _JITTER_S
        parts = [Sending([], []) for _ in range(count)]
        for order in self.orders:
            parts[_part(order.at_s, last_s, count, rng)].orders.append(_order_record(order))
        for payment in self.payments:
            parts[_part(payment.at_s, last_s, count, rng)].payments.append(_payment_record(payment))
        yield from parts
        yield closing()


def play(seed: int, orders: int) -> tuple[Day, random.Random]:
    """Generate a day from a seed; also return the random source for what follows."""
    rng = random.Random(seed)
    made: list[Order] = []
    payments: list[Payment] = []
    for order_id in range(orders):
        order = Order(order_id, *_choose_tea(rng), _when(rng))
        made.append(order)
        luck = rng.random()
        if luck < _NEVER_PAID:
            continue
        if luck < _NEVER_PAID + _PAID_TOO_LATE:
            delay_s = PAY_WITHIN_S + 5 + 30 * rng.random()
        else:
            delay_s = min(rng.expovariate(1 / 6), PAY_WITHIN_S - 1)
        payments.append(Payment(order_id, _to_millis(order.at_s + delay_s)))
    return Day(made, payments), rng


def closing() -> Sending:
    """Return an order and its payment an hour later, which completes the last windows."""
    late = Order(-1, "closing", 0, OPEN_S + 3600.0)
    payment = Payment(-1, late.at_s)
    # One for each partition.
    return Sending([_order_record(late)] * 2, [_payment_record(payment)] * 2, is_closing=True)


def timestamp(at_s: float) -> str:
    moment = OPENING + timedelta(milliseconds=round(at_s * 1000))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_since_opening(moment: datetime) -> int:
    return round((moment - OPENING).total_seconds())


def _is_in_time(order: Order, paid_s: float) -> bool:
    # In milliseconds, as in Spark.
    return 0 <= round(paid_s * 1000) - round(order.at_s * 1000) <= PAY_WITHIN_S * 1000


def _choose_tea(rng: random.Random) -> tuple[str, int]:
    tea = rng.choices(list(TEAS), weights=(5, 4, 1, 2, 3))[0]
    return tea, TEAS[tea] * rng.randint(1, 3)


def _when(rng: random.Random) -> float:
    """Draw the time of an order; orders come in waves."""
    while True:
        at_s = rng.random() * OPEN_S
        if rng.random() < 0.6 + 0.4 * math.sin(at_s / OPEN_S * 5 * math.pi):
            return _to_millis(at_s)


def _to_millis(at_s: float) -> float:
    return round(at_s, 3)


def _part(at_s: float, last_s: float, count: int, rng: random.Random) -> int:
    return min(int((at_s + rng.random() * _JITTER_S) / last_s * count), count - 1)


def _order_record(order: Order) -> tuple[bytes, bytes]:
    document = {"order_id": order.order_id, "tea": order.tea, "cents": order.cents}
    return _record(order.order_id, document, order.at_s)


def _payment_record(payment: Payment) -> tuple[bytes, bytes]:
    return _record(payment.order_id, {"order_id": payment.order_id}, payment.at_s)


def _record(order_id: int, document: dict[str, object], at_s: float) -> tuple[bytes, bytes]:
    text = json.dumps({**document, "at": timestamp(at_s)})
    return str(order_id).encode(), text.encode()
