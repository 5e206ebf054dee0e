"""`headwater pipeline new`: the files of each template."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.pipelines.templates.new_pipeline import TEMPLATES, NotWritten, new_pipeline


def headwater(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_file_and_a_test_are_written_with_the_name_of_the_pipeline(tmp_path: Path) -> None:
    done = headwater("pipeline", "new", "big-orders", "-d", str(tmp_path), "--json")
    file, test = tmp_path / "big-orders.yaml", tmp_path / "test_big_orders.py"
    assert json.loads(done.stdout) == {"files": [str(file), str(test)]}
    assert yaml.safe_load(file.read_text(encoding="utf-8"))["name"] == "big-orders"
    assert 'pipeline_test("big-orders.yaml")' in test.read_text(encoding="utf-8")


@pytest.mark.parametrize("existing", ["orders.yaml", "test_orders.py"])
def test_existing_files_are_kept(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine", encoding="utf-8")
    done = headwater("pipeline", "new", "orders", "-d", str(tmp_path))
    assert done.exit_code == 1
    assert done.stderr.strip().endswith("exists; choose another name or remove it first")
    assert [each.name for each in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text(encoding="utf-8") == "mine"


def test_templates_are_listed() -> None:
    done = headwater("pipeline", "new", "--list", "--json")
    assert [json.loads(line)["template"] for line in done.stdout.splitlines()] == [*TEMPLATES]


@pytest.mark.parametrize(
    ("name", "template", "reason"),
    [("a/b", "filter", "no name of a pipeline"), ("a", "tea", "there is no template tea")],
)
def test_wrong_names_are_refused(tmp_path: Path, name: str, template: str, reason: str) -> None:
    with pytest.raises(NotWritten, match=reason):
        new_pipeline(name, template, tmp_path)
    assert not list(tmp_path.iterdir())
