"""Secrets in a pipeline's file are reported with their lines, and are not repeated."""

from pathlib import Path

import pytest

from headwater.pipelines.spec.load_document import load_document
from headwater.pipelines.spec.written_secrets import secret_warnings
from tests.unit.pipelines.pipeline_files import GOOD, written


def _lines(folder: Path, text: str) -> list[int]:
    return [each.line for each in secret_warnings(load_document(written(folder, text)))]


def test_a_pipeline_without_secrets_has_no_warnings(tmp_path: Path) -> None:
    assert _lines(tmp_path, GOOD) == []


@pytest.mark.parametrize(
    "secret",
    [
        "kafka.sasl.jaas.config: org.apache.kafka.PlainLoginModule required password=x;",
        "kafka.ssl.keystore.password: hush",
        "kafka.sasl.password: hush",
        "basic.auth.user.info: me:hush",
        "fs.s3a.secret.key: hush",
        "fs.s3a.access.key: AKIA",
        "url: postgresql://me:hush@host/db",
        "url: jdbc:postgresql://host/db?user=me&password=hush",
    ],
)
def test_a_secret_is_reported_with_its_line_and_without_its_value(
    tmp_path: Path, secret: str
) -> None:
    file = written(
        tmp_path, GOOD.replace("    subscribe: orders", f"    {secret}\n    subscribe: orders")
    )
    (found,) = secret_warnings(load_document(file))
    assert found.line == 7
    assert "hush" not in found.text
    assert "AKIA" not in found.text
    assert found.text.endswith("keep it in a properties file that settings or settingsFile names")


@pytest.mark.parametrize(
    "line",
    [
        "kafka.ssl.keystore.location: /etc/keys.pem",
        "fs.s3a.aws.credentials.provider: com.example.Provider",
        "settingsFile: secrets.properties",
        "kafka.sasl.password: ${HUSH}",
        "kafka.bootstrap.servers: host:9092",
    ],
)
def test_what_names_a_place_or_a_variable_is_no_secret(tmp_path: Path, line: str) -> None:
    assert _lines(tmp_path, GOOD.replace("subscribe: orders", line)) == []


def test_columns_may_be_called_password(tmp_path: Path) -> None:
    assert _lines(tmp_path, GOOD.replace("{string: customer}", "{string: password}")) == []


def test_the_session_of_spark_is_looked_through_too(tmp_path: Path) -> None:
    text = GOOD.replace(
        "sources:", "session:\n  conf:\n    spark.hadoop.fs.s3a.secret.key: hush\nsources:"
    )
    assert _lines(tmp_path, text) == [7]
