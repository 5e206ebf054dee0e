"""What a worker hands to the process of a task, and what the process reports back.

The setup is one line of JSON on standard input, so that secrets are not in the process list.
Reports are lines of JSON on standard output: started, topic, failed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, Self

STARTED = "started"
TOPIC_USED = "topic"
FAILED = "failed"

SINK_PARTITION: Final[Mapping[str, str]] = {"sink": "batch"}
"""Where a sink keeps its planned batch in the offset topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSetup:
    """A connector's config, and where its worker keeps offsets."""

    connector: str
    config: Mapping[str, str]
    group_id: str
    offset_topic: str
    client: Mapping[str, str]
    """Settings of all Kafka clients, among them `bootstrap.servers`."""
    producer: Mapping[str, str] = field(default_factory=dict)
    consumer: Mapping[str, str] = field(default_factory=dict)
    admin: Mapping[str, str] = field(default_factory=dict)
    loggers: Mapping[str, int] = field(default_factory=dict)
    """Levels of loggers."""

    @property
    def transactional_id(self) -> str:
        """As in Kafka Connect: group, connector and task."""
        return task_transactional_id(self.group_id, self.connector)

    @property
    def sink_group(self) -> str:
        return sink_group(self.connector)

    def to_line(self) -> bytes:
        return json.dumps(asdict(self)).encode() + b"\n"

    @classmethod
    def from_line(cls, line: str) -> Self:
        return cls(**json.loads(line))


def task_transactional_id(group_id: str, connector: str) -> str:
    """The transactional id of a connector's task, which fences its predecessors."""
    return f"{group_id}-{connector}-0"


def sink_group(connector: str) -> str:
    """The consumer group in which a sink commits its offsets."""
    return f"connect-{connector}"


def source_partition(plugin: str) -> dict[str, str]:
    """The only partition of a source in the offset topic, by installed name."""
    return {"source": plugin}


@dataclass(frozen=True, slots=True)
class TaskReport:
    """A line that a task reports; the text is a topic or a trace."""

    event: str
    text: str = ""

    def to_line(self) -> str:
        return json.dumps({"event": self.event, "text": self.text})

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        found = json.loads(line)
        return cls(found["event"], found["text"])
