"""The demo's shop and its comparison."""

import io
import json
from datetime import datetime

from rich.console import Console

from demo.results import compare
from demo.screen import Moment, Screen, table
from demo.shop import OPEN_S, PAY_WITHIN_S, TEAS, Cell, Day, Order, Payment, Revenue, play


def test_only_orders_that_were_paid_in_time_count() -> None:
    orders = [Order(n, "green", 420, 12.0) for n in range(4)] + [Order(4, "black", 350, 20.0)]
    payments = [
        Payment(0, 12.0),
        Payment(1, 12.0 + PAY_WITHIN_S),
        Payment(2, 12.001 + PAY_WITHIN_S),
        Payment(4, 25.0),
    ]
    assert Day(orders, payments).expected() == {
        Cell(10, "green"): Revenue(2, 840),
        Cell(20, "black"): Revenue(1, 350),
    }


def test_day_is_the_same_for_the_same_seed_and_is_sent_completely() -> None:
    day, rng = play(7, 500)
    assert play(7, 500)[0] == day
    *parts, closing = day.sendings(10, rng)
    sent = [json.loads(value)["order_id"] for part in parts for _, value in part.orders]
    assert sorted(sent) == list(range(500))
    paid = [json.loads(value)["order_id"] for part in parts for _, value in part.payments]
    assert sorted(paid) == sorted(payment.order_id for payment in day.payments)
    late = datetime.fromisoformat(json.loads(closing.orders[0][1])["at"])
    last = max(json.loads(value)["at"] for part in parts for _, value in part.payments)
    assert (late - datetime.fromisoformat(last)).total_seconds() > 10 * PAY_WITHIN_S


def test_every_window_has_every_tea() -> None:
    day, _ = play(1, 30_000)
    assert len(day.expected()) == len(TEAS) * OPEN_S // 10


def test_comparison_detects_missing_wrong_and_duplicate_results() -> None:
    a, b, c = Cell(0, "green"), Cell(0, "black"), Cell(10, "green")
    expected = {a: Revenue(1, 420), b: Revenue(2, 700)}
    assert compare(expected.items(), expected).is_right
    short = compare([(a, Revenue(1, 420))], expected)
    assert (short.is_right, short.missing) == (False, 1)
    double = compare([*expected.items(), (a, Revenue(1, 420))], expected)
    assert (double.is_right, double.twice) == (False, 1)
    wrong = compare([(a, Revenue(1, 421)), (b, Revenue(2, 700))], expected)
    assert (wrong.is_right, wrong.wrong) == (False, 1)
    more = compare([*expected.items(), (c, Revenue(1, 420))], expected)
    assert (more.is_right, more.wrong) == (False, 1)


def test_without_a_terminal_lines_are_plain_and_unique() -> None:
    output = io.StringIO()
    moment = Moment(
        orders=5,
        payments=4,
        batches=1,
        expected=2,
        rows=[(Cell(0, "green"), Revenue(1, 420))],
        news="the broker was killed",
    )
    with Screen(Console(file=output, width=200)) as screen:
        screen.show(moment)
        screen.show(moment)
    (line,) = output.getvalue().splitlines()
    assert "1 of 2 results, revenue 4.20; the broker was killed" in line


def test_table_fits_an_ordinary_terminal() -> None:
    rows = [(Cell(290, tea), Revenue(900, 912_345)) for tea in TEAS]
    moment = Moment(orders=30_000, payments=28_461, batches=12, expected=150, rows=rows)
    output = io.StringIO()
    Console(file=output, width=80).print(table(moment, 80))
    assert "290-300 s" in output.getvalue()
    assert "9,123" in output.getvalue()
    assert "…" not in output.getvalue()
