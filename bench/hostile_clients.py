"""Latency of an honest client while others attack the broker.

librdkafka produces 100 records per second, and a process replays prebuilt frames. Broker and
attacker are pinned to a core each; the honest client shares the attacker's, which runs at a lower
priority. Each attack runs for 60 s, or `HOSTILE_SECONDS`, against Headwater, against Apache Kafka
if `make peers` has fetched it, and against the sources that `HOSTILE_BEFORE` names, if any.
`HOSTILE_ATTACKS` selects attacks by a part of their names, separated by semicolons.

Note: a record that is not acknowledged within a minute counts as a minute.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.cimpl import KafkaError, Message

from bench.broker_requests import percentiles_us
from bench.harness import Bench
from bench.hostile_attacker import ATTACKS
from bench.peer_brokers import CONTENDERS, PeerBroker, Start
from bench.raw_requests import TOPIC
from bench.topics import create_topic
from tests.peers.jars import KAFKA_4_1

PRODUCES_PER_SECOND: Final = 100
GOAL_MS: Final = 100
_LONGEST_S: Final = 60.0
_SETTLED_S: Final = 0.2
_VALUE: Final = bytes(100)

OURS: Final = "Headwater"
BEFORE: Final = "before"
KAFKA: Final = "Kafka 4.1"


def measure(bench: Bench) -> None:
    seconds = float(os.environ.get("HOSTILE_SECONDS", "60"))
    chosen = [part.strip() for part in os.environ.get("HOSTILE_ATTACKS", "").split(";")]
    attacks = [name for name in ATTACKS if any(part in name for part in chosen)]
    found = {name: _under_attack(start, attacks, seconds) for name, start in _contenders().items()}
    for attack in ("no attack", *attacks):
        for index, share in enumerate(("p50", "p99")):
            others = ", ".join(
                f"{name} {times[attack][index]:,.1f} ms"
                for name, times in found.items()
                if name != OURS
            )
            bench.record(
                f"{attack}: {share}",
                found[OURS][attack][index],
                "ms",
                compared_with=others or None,
                at_most=GOAL_MS if share == "p99" else None,
            )


def _contenders() -> dict[str, Start]:
    chosen: dict[str, Start] = {OURS: CONTENDERS[OURS]}
    before = os.environ.get("HOSTILE_BEFORE")
    if before is not None:
        chosen[BEFORE] = lambda: _older(before)
    if KAFKA_4_1.absence() is None:
        chosen[KAFKA] = CONTENDERS[KAFKA]
    return chosen


@contextmanager
def _older(sources: str) -> Iterator[PeerBroker]:
    """Headwater from other sources."""
    outer = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = sources
    try:
        with CONTENDERS[OURS]() as broker:
            yield broker
    finally:
        if outer is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = outer


def _under_attack(start: Start, attacks: list[str], seconds: float) -> dict[str, list[float]]:
    """Return p50 and p99 of an honest client in milliseconds, by attack."""
    client_core, broker_core = _two_cores()
    own_cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {broker_core})
    with start() as broker:
        os.sched_setaffinity(0, {client_core})
        try:
            create_topic(broker, TOPIC)
            honest = HonestClient(broker.address)
            found = {"no attack": honest.run(seconds)}
            for attack in attacks:
                with _attacking(broker.port, attack):
                    found[attack] = honest.run(seconds)
                print(f"{attack}: {found[attack]}", file=sys.stderr)
                honest.settle()
        finally:
            os.sched_setaffinity(0, own_cores)
    return found


def _two_cores() -> tuple[int, int]:
    cores = sorted(os.sched_getaffinity(0))
    return cores[0], cores[-1]


@contextmanager
def _attacking(port: int, attack: str) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.hostile_attacker", str(port), attack]
    # The attacker always uses these sources, whatever broker is attacked.
    sources = {"PYTHONPATH": str(Path(__file__).parent.parent / "src")}
    attacker = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **sources}
    )
    try:
        assert attacker.stdout is not None
        if not attacker.stdout.readline():
            raise RuntimeError(f"{attack}: the attacker ended with {attacker.wait()}")
        yield
    finally:
        attacker.kill()
        attacker.wait()
        if attacker.stdout is not None:
            attacker.stdout.close()


class HonestClient:
    """librdkafka at a constant rate; measures each record until its acknowledgement."""

    def __init__(self, address: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "acks": 1,
                "linger.ms": 0,
                "message.timeout.ms": int(_LONGEST_S * 1_000),
                "log_level": 0,
            }
        )
        self._took_ns: list[int] = []

    def run(self, seconds: float) -> list[float]:
        """Produce for `seconds`; return p50 and p99 in milliseconds."""
        self._took_ns = []
        count = int(seconds * PRODUCES_PER_SECOND)
        began_ns = time.monotonic_ns()
        for number in range(count):
            due_ns = began_ns + number * 1_000_000_000 // PRODUCES_PER_SECOND
            while (early_ns := due_ns - time.monotonic_ns()) > 0:
                self._producer.poll(early_ns / 1e9)
            self._send(due_ns)
        self._producer.flush(_LONGEST_S)
        missing = count - len(self._took_ns)
        took_ns = [*self._took_ns, *[int(_LONGEST_S * 1e9)] * missing]
        return [each / 1e3 for each in percentiles_us(took_ns)[:2]]

    def settle(self) -> None:
        """Wait until the broker has processed what an attack has left behind."""
        until = time.monotonic() + _LONGEST_S
        quick = 0
        while quick < PRODUCES_PER_SECOND // 10 and time.monotonic() < until:
            self._took_ns = []
            self._send(time.monotonic_ns())
            self._producer.flush(_LONGEST_S)
            is_quick = bool(self._took_ns) and self._took_ns[0] < _SETTLED_S * 1e9
            quick = quick + 1 if is_quick else 0

    def _send(self, due_ns: int) -> None:
        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is None:
                self._took_ns.append(time.monotonic_ns() - due_ns)

        self._producer.produce(TOPIC, _VALUE, on_delivery=delivered)
