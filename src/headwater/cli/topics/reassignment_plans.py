"""Reassignment plans in the JSON of `kafka-reassign-partitions`.

    {"version": 1, "partitions": [{"topic": "tea", "partition": 0, "replicas": [1, 2]}]}

The first replica of a partition is its preferred leader.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headwater.common.ids import NodeId, TopicPartition

if TYPE_CHECKING:
    from headwater.client.admin.descriptions import Reassignment, TopicDescription
    from headwater.client.network.cluster_metadata import BrokerNode
    from headwater.common.ports import Random

Plan = Mapping[TopicPartition, Sequence[int]]

DONE = "done"
MOVING = "moving"
ELSEWHERE = "elsewhere"


def read_plan(file: Path) -> dict[TopicPartition, list[int]]:
    """Read a plan of this command or of kafka-reassign-partitions."""
    try:
        found: dict[TopicPartition, list[int]] = {}
        for each in json.loads(file.read_bytes())["partitions"]:
            place = TopicPartition(str(each["topic"]), _number(each["partition"]))
            found[place] = [_number(broker) for broker in each["replicas"]]
    except OSError as error:
        raise typer.BadParameter(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise typer.BadParameter(
            f'{file} is not a plan such as {{"version": 1, "partitions": '
            f'[{{"topic": "tea", "partition": 0, "replicas": [1, 2]}}]}}: {error!r}'
        ) from error
    if not found:
        raise typer.BadParameter(f"{file} has no partitions")
    return found


def plan_text(plan: Plan) -> str:
    partitions = [
        {"topic": place.topic, "partition": place.partition, "replicas": list(brokers)}
        for place, brokers in sorted(plan.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions})


def current_plan(topics: "Sequence[TopicDescription]") -> Plan:
    return {
        TopicPartition(topic.name, each.partition): each.replicas
        for topic in topics
        for each in topic.partitions
    }


def proposed_plan(
    topics: "Sequence[TopicDescription]", brokers: "Sequence[BrokerNode]", rng: "Random"
) -> Plan:
    """Spread topics over brokers and racks, keeping their replication factors."""
    from headwater.controller.replica_placer import place
    from headwater.metadata.cluster_image import BrokerRegistration

    ring = {
        NodeId(each.node_id): BrokerRegistration(
            node_id=NodeId(each.node_id), epoch=0, rack=each.rack
        )
        for each in brokers
    }
    plan: dict[TopicPartition, Sequence[int]] = {}
    for topic in topics:
        replication_factor = max(len(each.replicas) for each in topic.partitions)
        if replication_factor > len(ring):
            raise typer.BadParameter(
                f"{topic.name} has replication factor {replication_factor}, "
                f"but only {len(ring)} brokers are given"
            )
        places = place(
            ring,
            partition_count=len(topic.partitions),
            replication_factor=replication_factor,
            rng=rng,
        )
        for each, replicas in zip(topic.partitions, places, strict=True):
            plan[TopicPartition(topic.name, each.partition)] = replicas
    return plan


def progress_rows(
    plan: Plan, now: Plan, moves: "Mapping[TopicPartition, Reassignment]"
) -> list[dict[str, object]]:
    """The progress of each partition of a plan."""
    rows: list[dict[str, object]] = []
    for place, wanted in sorted(plan.items()):
        replicas = now.get(place)
        if place in moves:
            state = MOVING
        else:
            state = DONE if replicas is not None and list(replicas) == list(wanted) else ELSEWHERE
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "wanted": list(wanted),
                "replicas": None if replicas is None else list(replicas),
                "state": state,
            }
        )
    return rows


def _number(given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{given!r} is not a number")
    return given
