"""What a pipeline's file says, in each of its languages."""

from pathlib import Path

import pytest

from headwater.pipelines.check.checked_pipeline import only_once, read_file
from headwater.pipelines.spec.ddl import DdlField
from headwater.pipelines.spec.document import InvalidPipeline
from headwater.pipelines.spec.pipeline_spec import (
    Coding,
    Decoding,
    Mode,
    PythonStep,
    RecordSpec,
    Restarts,
    SinkSpec,
    SourceSpec,
    StepSpec,
    Trigger,
    Watermark,
)
from tests.unit.pipelines.pipeline_files import GOOD, problems_of, written

TOML = """\
version = 1
name = "orders-to-lake"
bootstrap = "127.0.0.1:9092"
checkpoint = "./ck"

[sources.orders]
subscribe = "orders"
startingOffsets = "earliest"
decode.key = { string = "customer" }
decode.value = { json = "id bigint, amount double, at timestamp" }
watermark = { at = "10 minutes" }

[steps.big]
sql = \"\"\"
select customer, id
from orders
where amount > 100
\"\"\"

[[sinks]]
from = "big"
topic = "big-orders"
key = "customer"
delivery = "exactly-once"
trigger = { every = "1s" }

[on_error]
restart = { max = 3, backoff = "2s" }
dead_letter = "orders.dlq"
"""

PYTHON = """\
from headwater.pipelines import pipeline


@pipeline(
    name="orders-to-lake",
    sources={
        "orders": {"subscribe": "orders"},
        "names": {"subscribe": "names", "tabel": True},
    },
    sinks=[{"topic": "big-orders"}],
)
def big(orders, names):
    return orders
"""


def test_a_pipeline_says_what_is_read_made_and_written(tmp_path: Path) -> None:
    _, spec, problems = read_file(written(tmp_path, GOOD))
    assert problems == []
    assert (spec.name, spec.checkpoint, spec.dead_letter) == (
        "orders-to-lake",
        str(tmp_path / "ck"),
        "orders.dlq",
    )
    fields = (
        DdlField(name="id", kind="bigint"),
        DdlField(name="amount", kind="double"),
        DdlField(name="at", kind="timestamp"),
    )
    schema = "id bigint, amount double, at timestamp"
    assert spec.sources == (
        SourceSpec(
            name="orders",
            place=("sources", "orders"),
            options={"subscribe": "orders", "startingOffsets": "earliest"},
            key=Decoding(
                coding=Coding.STRING,
                schema="`customer` string",
                fields=(DdlField(name="customer", kind="string"),),
            ),
            value=Decoding(coding=Coding.JSON, schema=schema, fields=fields),
            watermark=Watermark(column="at", delay_ms=600_000),
        ),
    )
    assert [(each.name, each.inputs) for each in spec.steps] == [("big", ("orders",))]
    assert spec.sinks == (
        SinkSpec(
            name="big-to-big-orders",
            place=("sinks", 0),
            source="big",
            options={"topic": "big-orders", "delivery": "exactly-once"},
            record=RecordSpec(key="customer"),
            trigger=Trigger(every_ms=1_000),
        ),
    )
    assert spec.restarts == Restarts(max_count=3, backoff_ms=2_000)


def test_the_words_beside_a_connector_are_its_own(tmp_path: Path) -> None:
    text = """\
version: 1
name: shelf
bootstrap: 127.0.0.1:9092
checkpoint: ./ck
sources:
  shelf: {connector: files, path: in, format: csv, schema: "id bigint"}
  orders: {connector: postgresql, uri: "postgresql://h/d", table: orders}
sinks:
  - {from: shelf, connector: files, path: out, format: json}
"""
    _, spec, problems = read_file(written(tmp_path, text))
    assert problems == []
    shelf, orders = spec.sources
    assert shelf.options == {"path": "in", "format": "csv", "schema": "id bigint"}
    assert orders.options == {"uri": "postgresql://h/d", "table": "orders"}
    assert not orders.is_table
    assert spec.sinks[0].options == {"path": "out", "format": "json"}


def test_toml_says_the_same_as_yaml(tmp_path: Path) -> None:
    _, in_yaml, _ = read_file(written(tmp_path, GOOD))
    _, in_toml, problems = read_file(written(tmp_path, TOML, "pipeline.toml"))
    assert problems == []
    assert in_toml.sources == in_yaml.sources
    assert in_toml.sinks == in_yaml.sinks
    assert in_toml.restarts == in_yaml.restarts
    assert [each.inputs for each in in_toml.steps] == [each.inputs for each in in_yaml.steps]


def test_a_function_is_a_step_that_reads_what_its_parameters_name(tmp_path: Path) -> None:
    file = written(tmp_path, PYTHON, "pipeline.py")
    document, spec, _ = read_file(file)
    assert spec.steps == (
        StepSpec(
            name="big",
            place=("steps", "big"),
            inputs=("orders", "names"),
            python=PythonStep(file=None, function="big"),
        ),
    )
    assert [each.source for each in spec.sinks] == ["big"]
    assert document.line_of(("sources", "names", "tabel")) == 8


def test_a_sink_may_end_when_all_is_written(tmp_path: Path) -> None:
    text = GOOD.replace("trigger: {every: 1s}", "trigger: {available_now: true}\n    mode: update")
    _, spec, problems = read_file(written(tmp_path, text))
    assert problems == []
    assert (spec.sinks[0].trigger, spec.sinks[0].mode) == (Trigger(), Mode.UPDATE)


def test_a_run_once_ends_every_sink(tmp_path: Path) -> None:
    _, spec, _ = read_file(written(tmp_path, GOOD))
    assert [each.trigger for each in only_once(spec).sinks] == [Trigger()]


def test_the_brokers_of_the_command_win_over_those_of_the_file(tmp_path: Path) -> None:
    _, spec, _ = read_file(written(tmp_path, GOOD), bootstrap="elsewhere:9092")
    assert spec.bootstrap == "elsewhere:9092"


def test_nested_options_are_handed_over_as_spark_takes_them(tmp_path: Path) -> None:
    text = GOOD.replace("subscribe: orders", "subscribe: [orders, more]").replace(
        "startingOffsets: earliest", "startingOffsets: {orders: {0: 5}}\n    failOnDataLoss: false"
    )
    _, spec, problems = read_file(written(tmp_path, text))
    assert problems == []
    assert spec.sources[0].options == {
        "subscribe": "orders,more",
        "startingOffsets": '{"orders": {"0": 5}}',
        "failOnDataLoss": "false",
    }


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("a.yaml", "name: x\nsources: {a: [}\n", 2, "invalid YAML"),
        ("a.yaml", "name: x\nname: y\n", 2, "name is here twice"),
        ("a.yaml", "a: &a\n  - *a\n", 1, "contains itself"),
        ("a.toml", 'name = "x"\nsources = [\n', 3, "invalid TOML"),
        ("a.toml", 'name = "x"\nname = "y"\n', 2, "invalid TOML"),
        ("a.py", "x = 1\ndef f(:\n", 2, "invalid Python"),
        ("a.py", "x = 1\n", 1, "0 functions have @pipeline"),
        ("a.ini", "", 1, "a pipeline file must end in .yaml, .toml or .py"),
    ],
)
def test_a_file_that_cannot_be_read_says_in_which_line(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    file = written(tmp_path, text, name)
    with pytest.raises(InvalidPipeline) as refused:
        read_file(file)
    (problem,) = refused.value.problems
    assert (problem.file, problem.line) == (file, line)
    assert reason in problem.text
    assert str(refused.value).startswith(f"{file}:{line}: ")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("gone.yaml", "gone.py"):
        with pytest.raises(InvalidPipeline, match=r"gone.*:1: "):
            read_file(tmp_path / name)


def test_what_is_merged_in_may_be_said_again(tmp_path: Path) -> None:
    text = GOOD.replace(
        "sources:\n  orders:\n",
        "sources:\n  old: &old {subscribe: old, startingOffsets: latest}\n"
        "  orders:\n    <<: *old\n",
    )
    _, spec, problems = read_file(written(tmp_path, text))
    assert problems == []
    assert spec.sources[1].options == {"subscribe": "orders", "startingOffsets": "earliest"}


@pytest.mark.parametrize("location", ["s3a://lake/a", "hdfs:///a", "file:///mnt/a", "dbfs:/a"])
def test_a_location_with_a_scheme_stays_as_it_is(tmp_path: Path, location: str) -> None:
    text = (
        GOOD.replace("./ck", location)
        + f"""
  - {{from: big, format: parquet, path: "{location}"}}
"""
    )
    text = text.replace("on_error:", "#").replace("  restart:", "#").replace("  dead_letter:", "#")
    files = f"  files: {{format: parquet, path: '{location}', schema: 'id bigint'}}\nsteps:"
    _, spec, problems = read_file(written(tmp_path, text.replace("steps:", files)))
    assert problems == []
    assert spec.checkpoint == location
    assert spec.sources[-1].options["path"] == location
    assert spec.sinks[-1].options["path"] == location


def test_a_packed_environment_is_an_archive_of_executors(tmp_path: Path) -> None:
    conf = "conf: {spark.archives: 'data.zip#data'}"
    session = f"session: {{master: yarn, package: ./env.tar.gz, {conf}}}\nsources:"
    file = written(tmp_path, GOOD.replace("sources:", session))
    _, _, problems = read_file(file)
    assert [each.text for each in problems] == [
        f"there is no file {tmp_path}/env.tar.gz: headwater pipeline package makes it"
    ]
    (tmp_path / "env.tar.gz").write_bytes(b"")
    _, spec, problems = read_file(file)
    assert problems == []
    assert spec.conf["spark.archives"] == f"data.zip#data,{tmp_path}/env.tar.gz#headwater"


def test_sinks_of_a_batch_pipeline_end_and_have_no_trigger(tmp_path: Path) -> None:
    text = GOOD.replace("version: 1", "version: 1\nmode: batch")
    file = written(tmp_path, text)
    assert problems_of(file) == [(25, "sinks of a pipeline with mode: batch cannot have a trigger")]
    _, spec, problems = read_file(written(tmp_path, text.replace("    trigger: {every: 1s}\n", "")))
    assert problems == []
    assert spec.is_batch
    assert [each.trigger for each in spec.sinks] == [Trigger()]
