"""Run the demo: `make demo`, or `python -m demo`.

It starts a broker, sends a tea shop's orders and payments, joins and sums them with Spark exactly
once into a topic and from there to Parquet, kills the broker meanwhile, and compares the result
with what was sent. Exits with 0 if all is right, with 1 if not, with 2 if it could not run.

Note: Spark and its workers log to standard error whenever a process is killed, as happens here, so
standard error goes to a file.
"""

import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from demo.queries import ORDERS, PAYMENTS, REVENUE, start_parquet, start_revenue
from demo.results import Comparison, RevenueReader, compare, parquet_rows
from demo.screen import Moment, Screen
from demo.sending import Publisher
from demo.shop import Cell, Revenue, play
from headwater.client import Admin, NewTopic
from headwater.common.exceptions import HeadwaterError
from headwater.spark import session
from headwater.testing import EmbeddedBroker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SEED: Final = int(os.environ.get("SEED", "1"))
# Overall time limit, for busy machines.
TIMEOUT_S: Final = float(os.environ.get("DEMO_TIMEOUT_S", "600"))
OUTPUT: Final = Path("demo-output")
PARTITIONS: Final = 2

_ORDERS: Final = 30_000
_PARTS: Final = 40
_PAUSE_S: Final = 0.5
_STARTS_MAX: Final = 5
# Output to a file does not need four lines per second.
_LINES_EVERY_S: Final = 3.0


class DemoFailed(HeadwaterError):
    """The demo could not be completed."""


def main() -> int:
    console = Console()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir()
    log_path = OUTPUT / "spark.log"
    try:
        with tempfile.TemporaryDirectory(prefix="headwater-demo-") as folder, quiet(log_path):
            return run(console, Path(folder))
    except HeadwaterError as failure:
        console.print(f"[red]{failure}[/red]", highlight=False, soft_wrap=True)
        console.print(f"What Spark says is in {log_path}.")
        return 2
    except KeyboardInterrupt:
        console.print("stopped")
        return 130


def run(console: Console, folder: Path) -> int:
    until_s = time.monotonic() + TIMEOUT_S
    day, rng = play(SEED, _ORDERS)
    expected = day.expected()
    with EmbeddedBroker({"num.partitions": PARTITIONS}) as broker:
        brokers = broker.bootstrap_servers
        with Admin(bootstrap_servers=brokers) as admin:
            names = (ORDERS, PAYMENTS, REVENUE)
            admin.create_topics([NewTopic(name=name, partitions=PARTITIONS) for name in names])
        step(console, f"a broker on {brokers}, no JVM in it")
        console.print("   Spark is starting, which takes some ten seconds ...")
        with started_spark() as spark:
            step(console, f"Spark {spark.version} on this machine")
            files = OUTPUT / "revenue"
            queries = [
                started(lambda: start_revenue(spark, brokers, folder), until_s),
                started(lambda: start_parquet(spark, brokers, folder, files), until_s),
            ]
            step(console, "two queries: orders ⋈ payments → revenue, and revenue → Parquet")
            publisher = Publisher(brokers, day.sendings(_PARTS, rng), _PAUSE_S)
            reader = RevenueReader(brokers, PARTITIONS)
            publisher.start()
            try:
                follow(console, broker, publisher, reader, queries, len(expected), until_s)
                in_files = wait_for_files(spark, len(reader.rows), queries, until_s)
            finally:
                publisher.stop()
                reader.close()
                for query in queries:
                    query.stop()
            return tell(console, expected, reader.rows, in_files)


def started(start: "Callable[[], StreamingQuery]", until_s: float) -> "StreamingQuery":
    """Start a query and wait until it is running, so that progress is visible from the start.

    Spark gives the process of a source ten seconds to start. On a busy machine that may not be
    enough, and then the query is restarted, like any failed query.
    """
    for _ in range(_STARTS_MAX):
        query = start()
        while query.isActive and not query.status["message"].startswith("Waiting"):
            refuse_failed([], None, until_s)
            time.sleep(0.1)
        if query.isActive:
            return query
    refuse_failed([query], None, until_s)
    raise DemoFailed(f"the query {query.name} has ended")


def follow(
    console: Console,
    broker: EmbeddedBroker,
    publisher: Publisher,
    reader: RevenueReader,
    queries: "list[StreamingQuery]",
    expected: int,
    until_s: float,
) -> None:
    """Show the progress, and kill the broker halfway."""
    news = ""
    next_line_s = 0.0
    with Screen(console) as screen:
        while len(reader.rows) < expected or not publisher.is_done:
            refuse_failed(queries, publisher, until_s)
            reader.poll(0.25)
            if not news and publisher.orders >= _ORDERS // 2:
                news = kill_and_restart(broker)
            if console.is_terminal or time.monotonic() >= next_line_s:
                next_line_s = time.monotonic() + _LINES_EVERY_S
                screen.show(moment(publisher, reader, queries, expected, news))
        screen.show(moment(publisher, reader, queries, expected, news))


def moment(
    publisher: Publisher,
    reader: RevenueReader,
    queries: "list[StreamingQuery]",
    expected: int,
    news: str,
) -> Moment:
    progress = queries[0].lastProgress
    return Moment(
        orders=publisher.orders,
        payments=publisher.payments,
        batches=0 if progress is None else progress.batchId + 1,
        expected=expected,
        rows=list(reader.rows),
        news=news,
    )


def kill_and_restart(broker: EmbeddedBroker) -> str:
    began_s = time.monotonic()
    broker.kill()
    broker.start()
    return f"the broker was killed (SIGKILL), and back after {time.monotonic() - began_s:.1f} s"


def wait_for_files(
    spark: "SparkSession", rows: int, queries: "list[StreamingQuery]", until_s: float
) -> list[tuple[Cell, Revenue]]:
    """Wait for the second query, which is a batch or two behind the first."""
    while True:
        refuse_failed(queries, None, until_s)
        queries[1].processAllAvailable()
        found = parquet_rows(spark, OUTPUT / "revenue")
        if len(found) >= rows:
            return found


def refuse_failed(
    queries: "list[StreamingQuery]", publisher: Publisher | None, until_s: float
) -> None:
    for query in queries:
        failure = query.exception()
        if failure is not None:
            raise DemoFailed(f"the query {query.name} has failed: {str(failure).splitlines()[0]}")
    if publisher is not None and publisher.failure is not None:
        raise DemoFailed(f"nothing can be sent: {publisher.failure}")
    if time.monotonic() > until_s:
        raise DemoFailed(f"not done after {TIMEOUT_S:.0f} s; DEMO_TIMEOUT_S allows more")


def tell(
    console: Console,
    expected: dict[Cell, Revenue],
    rows: list[tuple[Cell, Revenue]],
    in_files: list[tuple[Cell, Revenue]],
) -> int:
    cents = sum(revenue.cents for revenue in expected.values())
    orders = sum(revenue.orders for revenue in expected.values())
    console.print(
        f"\nOf {_ORDERS:,} orders {orders:,} were paid in time: {cents / 100:,.2f} "
        f"in {len(expected)} results, says plain Python.",
        highlight=False,
        soft_wrap=True,
    )
    comparisons = {
        "the topic": compare(rows, expected),
        "the Parquet files": compare(in_files, expected),
    }
    for name, comparison in comparisons.items():
        console.print(line(name, comparison), highlight=False, soft_wrap=True)
    picture = OUTPUT / "revenue.png"
    from demo.plot import draw

    draw(rows, picture)
    console.print(f"The picture is {picture}, the files are in {OUTPUT / 'revenue'}.")
    return 0 if all(comparison.is_right for comparison in comparisons.values()) else 1


def line(name: str, comparison: Comparison) -> str:
    sign = (
        "[bold green]✔ right[/bold green]"
        if comparison.is_right
        else "[bold red]✘ wrong[/bold red]"
    )
    return (
        f"{sign}  {name}: {comparison.right} of {comparison.expected} right, "
        f"{comparison.missing} missing, {comparison.twice} twice, {comparison.wrong} wrong, "
        f"revenue {comparison.cents / 100:,.2f}"
    )


def step(console: Console, text: str) -> None:
    console.print(f"[green]✔[/green] {text}", highlight=False)


@contextmanager
def started_spark() -> "Iterator[SparkSession]":
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    spark = session("local[2,4]", {"spark.sql.shuffle.partitions": "2"}, app_name="headwater demo")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def quiet(log_path: Path) -> Iterator[None]:
    """Redirect standard error of this process and its children to a file."""
    restore = _to_file(log_path)
    try:
        yield
    finally:
        restore()


def _to_file(log_path: Path) -> Callable[[], None]:
    sys.stderr.flush()
    saved = os.dup(2)
    with log_path.open("ab") as log:
        os.dup2(log.fileno(), 2)

    def restore() -> None:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)

    return restore


if __name__ == "__main__":
    sys.exit(main())
