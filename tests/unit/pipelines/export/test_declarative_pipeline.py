"""`headwater pipeline export --sdp`: the project it writes."""

import ast
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from headwater.cli.main import app
from headwater.connect.pipeline_connectors import InstalledConnectors
from headwater.pipelines.check.checked_pipeline import checked
from headwater.pipelines.export.declarative_pipeline import NotExportable, declarative_pipeline
from headwater.pipelines.spec.pipeline_spec import PipelineSpec

EXAMPLES = Path(__file__).parents[4] / "examples"


def spec(name: str) -> PipelineSpec:
    connectors = InstalledConnectors()
    file = EXAMPLES / name
    return checked(file, bootstrap=None, connectors=connectors, grammar=None, topics=None)


def functions(text: str) -> list[str]:
    return [each.name for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]


def test_sources_and_steps_are_views_and_sinks_have_flows() -> None:
    files = declarative_pipeline(spec("stream-table-join.yaml"), "file:///storage")
    project, program = files["spark-pipeline.yml"], files["transformations/orders-with-names.py"]
    assert yaml.safe_load(project)["storage"] == "file:///storage"
    assert functions(program) == [
        "orders",
        "customers",
        "named",
        "named_to_orders_with_names_flow",
    ]
    assert "with orders as (select * from stream orders)" in program
    assert "stream customers" not in program
    assert "spark.read.format('headwater')" in program


@pytest.mark.parametrize(
    "name",
    ["filter-and-map.yaml", "tumbling-windows.toml", "stream-stream-join.yaml"],
)
def test_exported_programs_are_python(name: str) -> None:
    files = declarative_pipeline(spec(name), "file:///storage")
    assert any(functions(text) for name, text in files.items() if name.endswith(".py"))


def test_what_declarative_pipelines_lack_is_named() -> None:
    with pytest.raises(NotExportable, match="balances-to-balances has mode update, and only app"):
        declarative_pipeline(spec("running-totals.yaml"), "file:///storage")
    with pytest.raises(NotExportable, match="the sink database is a connector"):
        declarative_pipeline(spec("click_log/click-log.yaml"), "file:///storage")


def test_existing_projects_are_kept(tmp_path: Path) -> None:
    words = ["pipeline", "export", str(EXAMPLES / "filter-and-map.yaml")]
    exported = [*words, "--sdp", "-o", str(tmp_path / "project")]
    first = CliRunner().invoke(app, exported)
    assert first.exit_code == 0
    assert "note: create the topic big-orders first" in first.stdout
    again = CliRunner().invoke(app, exported)
    assert again.exit_code == 1
    assert "exists; choose another folder" in again.stderr
    assert "--sdp" in CliRunner().invoke(app, words).stderr
