"""Measure how long a registration takes with the SMS service called directly and decoupled.

    python examples/registration/measure.py [--registrations 100]

Storing a user and sending a message take 30 ms each, here as waits. Directly, a user waits for
both; decoupled, for the first and for a record that a broker has acknowledged.
"""

import argparse
import statistics
import time
from collections.abc import Callable

from headwater.client import Producer
from headwater.testing import EmbeddedBroker

STORE_S = 0.030
SMS_S = 0.030


def store_user() -> None:
    time.sleep(STORE_S)


def send_sms() -> None:
    time.sleep(SMS_S)


def directly() -> None:
    store_user()
    send_sms()


def decoupled(producer: Producer) -> None:
    store_user()
    producer.send("registrations", b'{"phone": "+44 1"}', key=b"ada").result()


def median_ms(register: Callable[[], None], count: int) -> float:
    taken = []
    for _ in range(count):
        begin_s = time.perf_counter()
        register()
        taken.append((time.perf_counter() - begin_s) * 1_000)
    return statistics.median(taken)


def measure(count: int) -> dict[str, float]:
    """Medians in milliseconds."""
    with (
        EmbeddedBroker() as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers, acks="all", linger_ms=0) as producer,
    ):
        decoupled(producer)
        return {
            "directly": median_ms(directly, count),
            "decoupled": median_ms(lambda: decoupled(producer), count),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--registrations", type=int, default=100)
    found = measure(parser.parse_args().registrations)
    for name, taken_ms in found.items():
        print(f"{name:10} {taken_ms:5.1f} ms (median)")


if __name__ == "__main__":
    main()
