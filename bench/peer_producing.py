"""Compare the produce lines of `bench.peers` alone, with record validation on and off.

Headwater without validation shows whether a line that is behind Kafka is so because of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from bench.harness import Bench, in_turn
from bench.peer_brokers import CONTENDERS, PeerBroker, Start
from bench.peer_loads import OnGenerated, produce_all
from bench.peers import recorded
from bench.processes import broker
from tests.peers.jars import KAFKA_4_1

ROUNDS: Final = 3


def measure(bench: Bench) -> None:
    absence = KAFKA_4_1.absence()
    if absence is not None:
        raise SystemExit(f"cannot compare with Apache Kafka: {absence}")
    contenders: dict[str, Start] = {**CONTENDERS, "Headwater, not validating": _not_validating}
    runs = {name: partial(_run, start) for name, start in contenders.items()}
    recorded(bench, in_turn(runs, ROUNDS))


@contextmanager
def _not_validating() -> Iterator[PeerBroker]:
    with broker("headwater.record.validation.enable=false") as (server, _):
        yield server


def _run(start: Start) -> list[OnGenerated]:
    with start() as running:
        return list(produce_all(running))
