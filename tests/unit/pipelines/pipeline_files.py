"""Pipelines written down for tests, and what is found wrong with them."""

from pathlib import Path

from headwater.pipelines.check.checked_pipeline import read_file
from headwater.pipelines.check.connector_port import Connectors, SinkConnector, SourceConnector
from headwater.pipelines.check.pipeline_check import Grammar, Topics, check_pipeline

GOOD = """\
version: 1
name: orders-to-lake
bootstrap: 127.0.0.1:9092
checkpoint: ./ck
sources:
  orders:
    subscribe: orders
    startingOffsets: earliest
    decode:
      key: {string: customer}
      value: {json: "id bigint, amount double, at timestamp"}
    watermark: {at: 10 minutes}
steps:
  big:
    sql: |
      select customer, id
      from orders
      where amount > 100
sinks:
  - from: big
    topic: big-orders
    key: customer
    delivery: exactly-once
    trigger: {every: 1s}
on_error:
  restart: {max: 3, backoff: 2s}
  dead_letter: orders.dlq
"""


def written(folder: Path, text: str, name: str = "pipeline.yaml") -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


class NoConnectors:
    """For a pipeline that has only topics and Spark's own formats."""

    def source_names(self) -> list[str]:
        return []

    def sink_names(self) -> list[str]:
        return []

    def source(self, name: str) -> SourceConnector:
        raise KeyError(name)

    def sink(self, name: str) -> SinkConnector:
        raise KeyError(name)


def problems_of(
    file: Path,
    *,
    connectors: Connectors | None = None,
    grammar: Grammar | None = None,
    topics: Topics | None = None,
) -> list[tuple[int, str]]:
    """Lines and texts, in the order of the file."""
    document, spec, problems = read_file(file)
    problems += check_pipeline(
        document,
        spec,
        connectors=connectors or NoConnectors(),
        grammar=grammar,
        topics=topics,
    )
    assert all(each.file == file for each in problems)
    return sorted((each.line, each.text) for each in problems)
