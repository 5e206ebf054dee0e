"""Measure what a peak of clicks asks of brokers and of a database.

    python examples/click_log/measure.py --uri postgresql://... [--clicks 200000]

Inserts clicks into a table one by one, as a service would that logs to its database, then sends
the same clicks to a topic. Both are acknowledged: commits by the database, records by the broker.
"""

import argparse
import json
import time
from contextlib import closing

from headwater.client import Producer
from headwater.connect.postgresql_client import connect
from headwater.testing import EmbeddedBroker

DIRECT_CLICKS = 2_000


def clicks(count: int) -> list[bytes]:
    return [
        json.dumps({"page": f"/{number % 50}", "visitor": f"v{number}", "at": number}).encode()
        for number in range(count)
    ]


def database_rate(uri: str, rows: list[bytes]) -> float:
    """Clicks per second, one transaction each."""
    with closing(connect(uri)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute("DROP TABLE IF EXISTS measured_clicks")
        cursor.execute("CREATE TABLE measured_clicks (click text)")
        connection.commit()
        begin_s = time.perf_counter()
        for row in rows:
            cursor.execute(f"INSERT INTO measured_clicks VALUES ('{row.decode()}')")
            connection.commit()
        taken_s = time.perf_counter() - begin_s
        cursor.execute("DROP TABLE measured_clicks")
        connection.commit()
    return len(rows) / taken_s


def topic_rate(rows: list[bytes]) -> float:
    """Clicks per second, acknowledged by the broker."""
    with (
        EmbeddedBroker({"num.partitions": 2}) as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, acks="all") as producer,
    ):
        producer.send("clicks", b"first").result()
        begin_s = time.perf_counter()
        for row in rows:
            producer.send("clicks", row)
        producer.flush()
        return len(rows) / (time.perf_counter() - begin_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uri", required=True)
    parser.add_argument("--clicks", type=int, default=200_000)
    given = parser.parse_args()
    print(f"database {database_rate(given.uri, clicks(DIRECT_CLICKS)):9,.0f} clicks/s")
    print(f"topic    {topic_rate(clicks(given.clicks)):9,.0f} clicks/s")


if __name__ == "__main__":
    main()
