"""Every template of `headwater pipeline new`: the file passes the check, and its test passes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.connect.pipeline_connectors import InstalledConnectors
from headwater.pipelines.check.checked_pipeline import checked
from headwater.pipelines.check.sql_grammar import SparkGrammar
from headwater.pipelines.templates.new_pipeline import TEMPLATES, new_pipeline
from headwater.testing import PipelineTestFactory

TIMEOUT_S = 1_200


@pytest.fixture(scope="module")
def grammar() -> Iterator[SparkGrammar]:
    with SparkGrammar() as found:
        yield found


@pytest.mark.parametrize(
    "template",
    [
        pytest.param(each, marks=[] if each == "filter" else [pytest.mark.slow])
        for each in TEMPLATES
    ],
)
@pytest.mark.spark
def test_a_new_pipeline_passes_its_check_and_its_test(
    template: str,
    pipeline_test: PipelineTestFactory,
    grammar: SparkGrammar,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, test = new_pipeline("my-pipeline", template, tmp_path)
    checked(file, bootstrap=None, connectors=InstalledConnectors(), grammar=grammar, topics=None)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(test.read_text(encoding="utf-8"), names)
    tests = [each for name, each in names.items() if name.startswith("test_")]
    assert tests
    # The slow test below runs the others.
    tests[0](pipeline_test)


@pytest.mark.slow
def test_all_tests_of_new_pipelines_pass_where_only_the_plugin_is_installed(tmp_path: Path) -> None:
    """In a pytest run of its own, with the plugin's own Spark session."""
    for template in TEMPLATES:
        new_pipeline(template, template, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout
    assert "10 passed" in done.stdout, done.stdout
