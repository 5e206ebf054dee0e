"""The range assignor compared with Kafka's, with racks (KIP-881)."""

import random
import subprocess
from pathlib import Path

import pytest

from headwater.client.assignors import GroupMember
from headwater.client.assignors.range_assignor import assign_ranges
from headwater.common.ids import TopicPartition
from tests.peers.apache_kafka import java
from tests.peers.jars import KAFKA_4_1

pytestmark = pytest.mark.peers

_PROGRAM = Path(__file__).parent / "java" / "NearAssignments.java"
_GROUPS = 400
_RACKS = ["", "a", "b", "c"]


class Question:
    """A random group: some members without a rack, some topics with equal placement."""

    def __init__(self, rng: random.Random) -> None:
        topics = [f"t{number}" for number in range(rng.randint(1, 3))]
        share_all = rng.random() < 0.6
        self.members = [
            GroupMember(
                member_id=f"m{number}",
                topics=frozenset(
                    topics if share_all else rng.sample(topics, rng.randint(1, len(topics)))
                ),
                rack_id=rng.choice(_RACKS) or None,
            )
            for number in range(rng.randint(1, 5))
        ]
        same = rng.randint(1, 6)
        self.counts = {topic: same if rng.random() < 0.6 else rng.randint(1, 6) for topic in topics}
        self.racks = {
            TopicPartition(topic, number): frozenset(rng.sample(_RACKS, rng.randint(1, 3)))
            for topic, count in self.counts.items()
            for number in range(count)
        }

    def line(self) -> str:
        members = ";".join(
            f"{each.member_id},{each.rack_id or ''},{' '.join(sorted(each.topics))}"
            for each in self.members
        )
        topics = ";".join(
            f"{topic}:"
            + ",".join(
                ".".join(sorted(self.racks[TopicPartition(topic, number)], reverse=True))
                for number in range(count)
            )
            for topic, count in self.counts.items()
        )
        return f"{members}|{topics}"

    def answer(self) -> str:
        racks = {place: where - {""} for place, where in self.racks.items()}
        dealt = assign_ranges(self.counts, self.members, racks)
        told = [f"{each}={' '.join(map(str, dealt[each]))}" for each in sorted(dealt)]
        return "{" + ", ".join(told) + "}"


def test_rack_aware_assignment_is_that_of_kafkas_range_assignor() -> None:
    rng = random.Random(881)
    questions = [Question(rng) for _ in range(_GROUPS)]
    run = subprocess.run(
        [*java(KAFKA_4_1, level="off"), str(_PROGRAM)],
        input="".join(f"{each.line()}\n" for each in questions),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=300,
    )
    answers = run.stdout.splitlines()
    assert len(answers) == len(questions)
    differing = [
        f"{question.line()}\n  kafka {theirs}\n  ours  {question.answer()}"
        for question, theirs in zip(questions, answers, strict=True)
        if question.answer() != theirs
    ]
    assert not differing, f"{len(differing)} differ:\n" + "\n".join(differing[:3])
