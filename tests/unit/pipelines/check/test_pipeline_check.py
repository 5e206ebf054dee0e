"""What is found wrong with a pipeline before Spark is started, and in which line."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.client.errors import KafkaTimeout
from headwater.pipelines.check.connector_port import (
    Options,
    SinkBatch,
    SinkConnector,
)
from headwater.pipelines.check.pipeline_check import SqlError
from tests.unit.pipelines.pipeline_files import GOOD, NoConnectors, problems_of, written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def test_nothing_is_wrong_with_a_good_pipeline(tmp_path: Path) -> None:
    assert problems_of(written(tmp_path, GOOD)) == []


CLUSTER = "session: {master: 'spark://there:7077'}\nsources:"


def test_a_local_checkpoint_is_refused_on_a_cluster(tmp_path: Path) -> None:
    ((line, reason),) = problems_of(written(tmp_path, GOOD.replace("sources:", CLUSTER)))
    assert line == 4
    assert reason == (
        f"checkpoint: {tmp_path}/ck is a folder of this machine, which the executors of "
        "spark://there:7077 do not share: use hdfs://..., s3a://..., or file:///... for a folder "
        "that is mounted on all machines"
    )


def test_local_files_are_refused_on_a_cluster(tmp_path: Path) -> None:
    sink = "sinks:\n  - {from: big, format: parquet, path: ./lake}"
    text = GOOD.replace("sources:", CLUSTER).replace("./ck", "hdfs:///ck").replace("sinks:", sink)
    ((line, reason),) = problems_of(written(tmp_path, text))
    assert line == 21
    assert reason.startswith(f"big-to-lake: {tmp_path}/lake is a folder of this machine")


def test_an_unknown_master_is_refused_with_its_line(tmp_path: Path) -> None:
    session = "session: {master: 'http://there'}\nsources:"
    text = GOOD.replace("./ck", "hdfs:///ck").replace("sources:", session)
    ((line, reason),) = problems_of(written(tmp_path, text))
    assert (line, reason[:27]) == (5, "unknown master http://there")


def test_spark_connect_is_refused_for_pipelines(tmp_path: Path) -> None:
    session = "session: {master: 'sc://there:15002'}\nsources:"
    text = GOOD.replace("./ck", "hdfs:///ck").replace("sources:", session)
    assert problems_of(written(tmp_path, text)) == [
        (5, "pipelines do not run through Spark Connect (sc://there:15002); programs do")
    ]


@pytest.mark.parametrize("checkpoint", ["s3a://bucket/ck", "file:///mnt/shared/ck"])
def test_a_shared_checkpoint_is_accepted_on_a_cluster(tmp_path: Path, checkpoint: str) -> None:
    jars = CLUSTER.replace("}", ", conf: {spark.jars: /opt/hadoop-aws.jar}}")
    text = GOOD.replace("sources:", jars).replace("./ck", checkpoint)
    assert problems_of(written(tmp_path, text)) == []


@pytest.mark.parametrize(
    ("checkpoint", "reason"),
    [
        (
            "s3a://bucket/ck",
            "checkpoint: s3a://bucket/ck: Spark has no file system for s3a; add "
            "org.apache.hadoop:hadoop-aws:3.5.0 to spark.jars.packages in session.conf",
        ),
        (
            "s3://bucket/ck",
            "checkpoint: s3://bucket/ck: Hadoop reads and writes S3 under s3a://..., not s3://...",
        ),
    ],
)
def test_a_scheme_without_a_file_system_is_refused(
    tmp_path: Path, checkpoint: str, reason: str
) -> None:
    text = GOOD.replace("./ck", checkpoint)
    assert problems_of(written(tmp_path, text)) == [(4, reason)]


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("version: 1", "version: 2", 1, "version must be 1, not 2"),
        ("name: orders-to-lake", "name: a/b", 2, "name must consist of letters"),
        ("checkpoint:", "checkpoints:", 4, "no checkpoints; did you mean checkpoint?"),
        ("subscribe: orders", "subscribe: 5\n    tabel: true", 8, "no option tabel"),
        ("startingOffsets", "startingOfsets", 8, "did you mean startingOffsets?"),
        ("startingOffsets: earliest", "startingOffsets: noon", 8, "startingOffsets"),
        ("subscribe: orders", "subscribe: orders\n    assign: '{}'", 7, "not subscribe, assign"),
        ("id bigint", "id bigin", 11, "a type is expected and not 'bigin'"),
        ("value: {json:", "value: {yaml:", 11, "unknown encoding yaml"),
        ("id bigint", "customer bigint", 9, "the column customer comes from the key and"),
        ("watermark: {at:", "watermark: {amount:", 12, "amount is of type double"),
        ("watermark: {at:", "watermark: {when:", 12, "has no column when"),
        ("10 minutes", "10 moons", 12, "must be a time such as 10 minutes"),
        ("  big:\n", "  orders:\n", 14, "duplicate name of a source or step: orders"),
        ("from orders", "from order", 15, "reads order, which is neither a source nor a step"),
        ("select customer, id", "drop table orders --", 15, "must be a query"),
        ("- from: big", "- from: bigg", 20, "did you mean big?"),
        ("- from: big\n", "- form: big\n", 20, "has no from"),
        ("topic: big-orders", "topic: ''", 21, "topic is empty"),
        ("delivery: exactly-once", "delivery: perhaps", 23, "delivery must be one of"),
        ("delivery: exactly-once", "delivry: exactly-once", 23, "did you mean delivery?"),
        ("every: 1s", "every: soon", 24, "trigger must be {every: 10s}"),
        ("key: customer", "mode: update", 22, "updates without a key replace nothing"),
        ("key: customer", "tombstone: id = 0", 22, "a tombstone without a key"),
        ("key: customer", "mode: overwrite", 22, "mode must be one of append, update, complete"),
        ("key: customer", "connector: jdbc", 22, "no connector jdbc; none is installed"),
        ("max: 3", "max: three", 26, "max must be a whole number, not 'three'"),
        ("max: 3", "max: -1", 26, "max must be at least 0, not -1"),
        ("dead_letter:", "dead_leter:", 27, "no dead_leter; did you mean dead_letter?"),
    ],
)
def test_a_mistake_is_found_with_its_line(
    tmp_path: Path, old: str, new: str, line: int, reason: str
) -> None:
    assert old in GOOD
    found = problems_of(written(tmp_path, GOOD.replace(old, new, 1)))
    assert any(at == line and reason in text for at, text in found), found


def test_all_mistakes_are_found_at_once(tmp_path: Path) -> None:
    text = GOOD.replace("version: 1", "version: 9").replace("max: 3", "max: x")
    assert [line for line, _ in problems_of(written(tmp_path, text))] == [1, 26]


def test_a_cycle_of_steps_is_reported_once(tmp_path: Path) -> None:
    steps = "steps:\n  a: {sql: select * from b}\n  b: {sql: select * from a join orders}\n"
    text = GOOD.replace("steps:\n", steps)
    assert problems_of(written(tmp_path, text)) == [(14, "steps form a cycle: a reads b reads a")]


def test_a_step_may_read_a_step_that_is_written_below_it(tmp_path: Path) -> None:
    text = GOOD.replace("steps:\n", "steps:\n  first: {sql: select * from BIG}\n")
    assert problems_of(written(tmp_path, text)) == []


def test_problems_in_toml_have_lines(tmp_path: Path) -> None:
    text = (
        'name = "x"\nbootstrap = "h:1"\n[sources.a]\nsubscribe = "a"\nwrong = 1\n'
        '[[sinks]]\nfrom = "a"\ntopic = "t"\n[[sinks]]\nfrom = "b"\ntopic = "u"\n'
    )
    assert [line for line, _ in problems_of(written(tmp_path, text, "p.toml"))] == [5, 10]


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (None, "there is no file"),
        ("def other(a): ...", "has no function make"),
        ("def make(a, b): ...", "make takes 2 frames, but the step m has 1 inputs"),
        ("def make(:", "is not valid Python"),
        ("def make(a): ...", None),
        ("def make(*frames): ...", None),
    ],
)
def test_a_function_is_looked_for_without_running_its_file(
    tmp_path: Path, function: str | None, reason: str | None
) -> None:
    step = "steps:\n  m: {python: 'jobs.py:make', inputs: [orders]}\n"
    file = written(tmp_path, GOOD.replace("steps:\n", step))
    if function is not None:
        written(tmp_path, f"{function}\nraise SystemExit\n", "jobs.py")
    found = problems_of(file)
    if reason is None:
        assert found == []
    else:
        assert [line for line, text in found if reason in text] == [14], found


class FakeGrammar:
    """Objects to one word."""

    def query(self, sql: str) -> SqlError | None:
        for number, line in enumerate(sql.splitlines(), 1):
            if "frm" in line:
                return SqlError(line=number, text="near frm")
        return None

    def expression(self, sql: str) -> SqlError | None:
        return self.query(sql)


def test_wrong_sql_is_found_in_its_own_line(tmp_path: Path) -> None:
    text = GOOD.replace("from orders", "frm orders").replace("key: customer", "key: frm")
    found = problems_of(written(tmp_path, text), grammar=FakeGrammar())
    assert (17, "invalid SQL: near frm") in found
    assert (22, "invalid SQL: near frm") in found


class FakeTopics:
    """A cluster with these topics, or one that does not answer."""

    def __init__(self, *names: str, is_there: bool = True) -> None:
        self._names = set(names)
        self._is_there = is_there
        self.asked: list[str] = []

    def known(self, client: Mapping[str, str]) -> set[str]:
        self.asked.append(client["bootstrap.servers"])
        if not self._is_there:
            raise KafkaTimeout("no broker answers")
        return self._names


def test_topics_have_to_be_there(tmp_path: Path) -> None:
    file = written(tmp_path, GOOD)
    assert problems_of(file, topics=FakeTopics("orders", "big-orders")) == []
    assert problems_of(file, topics=FakeTopics()) == [
        (7, "there is no topic orders"),
        (21, "there is no topic big-orders"),
    ]


def test_a_topic_that_is_to_be_created_need_not_be_there(tmp_path: Path) -> None:
    text = GOOD.replace("key: customer", "create: {partitions: 2}")
    assert problems_of(written(tmp_path, text), topics=FakeTopics("orders")) == []


def test_brokers_that_do_not_answer_are_asked_once(tmp_path: Path) -> None:
    topics = FakeTopics(is_there=False)
    found = problems_of(written(tmp_path, GOOD), topics=topics)
    assert found == [(3, "127.0.0.1:9092: no broker answers")]
    assert topics.asked == ["127.0.0.1:9092"]


class Shelf:
    """A connector that wants to know which shelf."""

    def problems(self, options: Options) -> list[str]:
        return [] if "shelf" in options else ["shelf is missing"]

    def write(self, rows: "DataFrame", options: Options, batch: SinkBatch) -> None: ...


class OneConnector(NoConnectors):
    """Only shelves."""

    def sink_names(self) -> list[str]:
        return ["shelf"]

    def sink(self, name: str) -> SinkConnector:
        assert name == "shelf"
        return Shelf()


def test_options_of_a_connector_are_checked_by_the_connector(tmp_path: Path) -> None:
    sink = "sinks:\n  - {from: big, connector: shelf, height: 3}\n"
    file = written(tmp_path, GOOD.partition("sinks:\n")[0] + sink)
    assert problems_of(file, connectors=OneConnector()) == [(20, "shelf: shelf is missing")]
    file = written(tmp_path, GOOD.partition("sinks:\n")[0] + sink.replace("height", "shelf"))
    assert problems_of(file, connectors=OneConnector()) == []


LOOKUP = """\
version: 1
name: p
bootstrap: 127.0.0.1:9092
sources:
  orders: {subscribe: orders, decode: {value: {json: "id bigint, customer string"}}}
  customers:
    subscribe: customers
    table: true
    decode: {key: {string: key}, value: {json: "name string"}}
steps:
  named:
    lookup:
      stream: orders
      table: customers
      on: {customer: key}
sinks:
  - {from: named, topic: named}
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "reason"),
    [
        ("", "", None, None),
        ("on: {customer: key}", "on: {customer: name}", 15, "all columns of the key of customers"),
        ("on: {customer: key}", "how: outer", 15, "how must be one of left, inner"),
        ("on: {customer: key}", "how: inner", 12, "lookup needs on"),
        ("table: true", "startingOffsets: earliest", 14, "must be a source with table: true"),
        ("key: {string: key}, ", "", 14, "customers must decode its key and its value"),
        (
            "stream: orders",
            "stream: order",
            12,
            "reads order, which is neither a source nor a step",
        ),
        (
            "    lookup:",
            "    sql: select 1\n    lookup:",
            11,
            "needs one of sql, python and lookup",
        ),
    ],
)
def test_problem_of_a_lookup_has_its_line(
    tmp_path: Path, old: str, new: str, line: int | None, reason: str | None
) -> None:
    found = problems_of(written(tmp_path, LOOKUP.replace(old, new, 1) if old else LOOKUP))
    if reason is None:
        assert found == []
    else:
        assert any(at == line and reason in text for at, text in found), found


def test_wrong_transforms_are_reported_with_their_lines(tmp_path: Path) -> None:
    transforms = """    watermark: {at: 10 minutes}
    transforms:
      - {type: InsertField$Value, static.field: shop, static.value: north, predicate: isShop}
      - type: RegexRouter
        regexp: x
    predicates:
      isShop:
        type: TopicNameMatch
"""
    text = GOOD.replace("    watermark: {at: 10 minutes}\n", transforms)
    text = text.replace(
        "    key: customer\n",
        "    key: customer\n    transforms:\n      - {type: InsertField$Value, offset.field: o}\n",
    )
    assert problems_of(written(tmp_path, text)) == [
        (15, "RegexRouter needs the option regex"),
        (15, "RegexRouter needs the option replacement"),
        (16, "RegexRouter has no option regexp; did you mean regex?"),
        (19, "unknown predicate TopicNameMatch; did you mean TopicNameMatches?"),
        (31, "records that a sink writes have no offset yet"),
    ]


def test_transforms_are_refused_where_there_is_no_topic(tmp_path: Path) -> None:
    sink = "sinks:\n  - {from: big, format: parquet, path: lake, transforms: [{type: Filter}]}"
    assert problems_of(written(tmp_path, GOOD.replace("sinks:", sink))) == [
        (20, "transforms are for topics: move them to the source or sink that is a topic")
    ]
