"""Schema registry commands against a real registry: output and exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headwater.cli.main import app
from headwater.testing import EmbeddedBroker, EmbeddedRegistry

TEA = '{"type":"record","name":"Tea","fields":[{"name":"kind","type":"string"}]}'
PRICED = TEA.replace("]", ',{"name":"price","type":"double"}]')


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedBroker() as broker, EmbeddedRegistry(broker.bootstrap_servers) as registry:
        yield registry.url


def run(url: str, *words: str, given: str = "") -> Result:
    return CliRunner().invoke(app, ["registry", *words, "--url", url], input=given)


def tells(url: str, *words: str, given: str = "") -> list[dict[str, object]]:
    result = run(url, *words, "--json", given=given)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_schemas_are_registered_listed_shown_checked_and_deleted(url: str, tmp_path: Path) -> None:
    file = tmp_path / "tea.avsc"
    file.write_text(TEA, encoding="utf-8")
    [made] = tells(url, "register", "tea-value", str(file))
    assert tells(url, "register", "tea-value", "-", given=TEA) == [made]
    assert tells(url, "subjects") == [{"subject": "tea-value"}]
    assert tells(url, "versions", "tea-value") == [{**made, "version": 1, "type": "AVRO"}]
    assert json.loads(run(url, "show", "tea-value").stdout) == json.loads(TEA)
    assert tells(url, "show", "tea-value")[0]["schema"] == TEA
    assert run(url, "check", "tea-value", str(file)).exit_code == 0
    file.write_text(PRICED, encoding="utf-8")
    checked = run(url, "check", "tea-value", str(file))
    assert checked.exit_code == 1
    assert "The field 'price' at path '/fields/1'" in checked.stdout
    refused = run(url, "register", "tea-value", str(file))
    assert refused.exit_code == 1
    assert "40901" in refused.stderr
    assert tells(url, "config", "tea-value", "--set", "NONE")[0]["compatibility"] == "NONE"
    assert tells(url, "config")[0]["compatibility"] == "BACKWARD"
    assert run(url, "register", "tea-value", str(file)).exit_code == 0
    gone = tells(url, "delete", "tea-value", "--version", "latest")
    assert gone == [{"subject": "tea-value", "version": 2}]
    assert tells(url, "delete", "tea-value") == [{"subject": "tea-value", "version": 1}]
    assert tells(url, "subjects") == []
    assert tells(url, "subjects", "--deleted") == [{"subject": "tea-value"}]
    assert len(tells(url, "delete", "tea-value", "--permanent")) == 2


def test_json_schemas_are_registered_and_checked_with_their_type(url: str, tmp_path: Path) -> None:
    file = tmp_path / "tea.json"
    file.write_text('{"type": "object", "properties": {"leaf": {"$ref": "leaf.json"}}}')
    leaf = '{"type": "string"}'
    tells(url, "register", "leaf", "-", "--type", "json", given=leaf)
    named = ("--type", "JSON", "--reference", "leaf.json=leaf:1")
    [made] = tells(url, "register", "json-value", str(file), *named)
    assert tells(url, "versions", "json-value") == [{**made, "version": 1, "type": "JSON"}]
    assert tells(url, "show", "json-value")[0]["references"] == [
        {"name": "leaf.json", "subject": "leaf", "version": 1}
    ]
    assert run(url, "check", "json-value", str(file), *named).exit_code == 0
    file.write_text('{"type": "object", "properties": {"leaf": {"type": "integer"}}}')
    checked = run(url, "check", "json-value", str(file), "--type", "json")
    assert checked.exit_code == 1
    assert "TYPE_CHANGED" in checked.stdout
    assert "different schema type" in run(url, "check", "json-value", "-", given=TEA).stdout
    wrong = run(url, "register", "json-value", str(file), "--reference", "leaf.json")
    assert wrong.exit_code == 2
    for subject in ("json-value", "leaf"):
        for more in ([], ["--permanent"]):
            assert run(url, "delete", subject, *more).exit_code == 0


def test_a_missing_subject_exits_with_one_line_and_code_1(url: str) -> None:
    result = run(url, "versions", "nothing")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "headwater: Subject 'nothing' not found. (error code 40401)"
    ]


def test_an_unreachable_registry_is_reported_with_one_line() -> None:
    result = run("http://127.0.0.1:1", "subjects")
    assert result.exit_code == 1
    [line] = result.stderr.splitlines()
    assert line.startswith("headwater: the schema registry at 127.0.0.1:1 does not answer")
    assert run("tea", "subjects").exit_code == 2


def test_a_missing_file_is_a_usage_error(url: str, tmp_path: Path) -> None:
    assert run(url, "register", "tea", str(tmp_path / "none")).exit_code == 2
