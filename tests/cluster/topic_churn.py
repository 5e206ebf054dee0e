"""Create and delete topics repeatedly, with several admin clients at once.

    python -m tests.cluster.topic_churn --rounds 100 --clients 5

starts a cluster of three brokers, runs the rounds and prints errors. Each client has topic names of
its own and reuses them in every round, so every error that it gets is wrong.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headwater.testing.embedded_cluster import EmbeddedCluster

TOPICS = 7
REQUEST_TIMEOUT_S = 60


@dataclass(slots=True)
class Churn:
    """The outcome of one client's rounds."""

    wrong_answers: list[str] = field(default_factory=list)
    slowest_delete_s: float = 0.0


def churn(servers: str, *, clients: int, rounds: int, factor: int = 3) -> list[Churn]:
    """Run all clients to their end."""
    with ThreadPoolExecutor(clients) as together:
        running = [
            together.submit(_run_client, servers, number, rounds, factor)
            for number in range(clients)
        ]
        return [each.result() for each in running]


def resignations(cluster: EmbeddedCluster) -> list[str]:
    """Return the log lines of controllers that resigned."""
    return [
        line
        for broker in cluster.brokers
        for line in broker.log_text.splitlines()
        if "Resigned as " in line or "Resigning as controller" in line
    ]


def _run_client(servers: str, number: int, rounds: int, factor: int) -> Churn:
    outcome = Churn()
    admin = AdminClient({"bootstrap.servers": servers})
    names = [f"churn-{number}-{each}" for each in range(TOPICS)]
    for turn in range(rounds):
        topics = [NewTopic(name, 1, factor) for name in names]
        created = admin.create_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
        _collect(outcome, f"round {turn}: create", created)
        began_s = time.monotonic()
        deleted = admin.delete_topics(
            names, operation_timeout=REQUEST_TIMEOUT_S, request_timeout=REQUEST_TIMEOUT_S
        )
        _collect(outcome, f"round {turn}: delete", deleted)
        outcome.slowest_delete_s = max(outcome.slowest_delete_s, time.monotonic() - began_s)
    return outcome


def _collect(outcome: Churn, what: str, answers: Mapping[str, Future[None]]) -> None:
    for name, answer in answers.items():
        try:
            answer.result()
        except KafkaException as error:
            outcome.wrong_answers.append(f"{what} {name}: {error.args[0].name()}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--clients", type=int, default=5)
    options = parser.parse_args(arguments)
    with EmbeddedCluster(3) as cluster:
        outcomes = churn(cluster.bootstrap_servers, clients=options.clients, rounds=options.rounds)
        resigned = resignations(cluster)
    wrong = [each for outcome in outcomes for each in outcome.wrong_answers]
    for line in [*resigned, *wrong][:20]:
        print(line)
    slowest_s = max(outcome.slowest_delete_s for outcome in outcomes)
    print(
        f"resignations={len(resigned)} wrong_answers={len(wrong)} slowest_delete_s={slowest_s:.1f}"
    )
    return 1 if resigned or wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
