"""Files and checkpoints in an object store, through Hadoop's s3a, while the driver is killed."""

import importlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyarrow.fs import FileSelector, S3FileSystem

from headwater.testing import EmbeddedBroker
from tests.lake.test_kills import _run_with_kills, _value
from tests.peers.jars import HADOOP_AWS
from tests.spark.pipelines import make, send

ROWS = 20_000
KILLS = 2
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """A server that stores objects in its memory."""
    if reason := HADOOP_AWS.absence():
        pytest.skip(reason)
    # Installed for these tests only.
    server = importlib.import_module("moto.server").ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    os.environ.update(AWS_ACCESS_KEY_ID="test", AWS_SECRET_ACCESS_KEY="test")
    yield f"{host}:{port}"
    server.stop()


def test_a_pipeline_keeps_files_and_checkpoint_in_s3(
    s3: str, spark_broker: EmbeddedBroker, tmp_path: Path
) -> None:
    files = S3FileSystem(
        endpoint_override=s3,
        scheme="http",
        access_key="test",
        secret_key="test",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    files.create_dir("lake")
    make(spark_broker, "to-s3")
    send(spark_broker, "to-s3", [(None, json.dumps(_value(each))) for each in range(ROWS)])
    conf = {
        # `spark.jars` would copy the SDK, which is two thirds of a gigabyte.
        "spark.driver.extraClassPath": HADOOP_AWS.class_path,
        "spark.hadoop.fs.s3a.endpoint": f"http://{s3}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.master": "local[2,4]",
    }
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        f"version: 1\nname: to-s3\nbootstrap: {spark_broker.bootstrap_servers}\n"
        "checkpoint: s3a://lake/checkpoints\n"
        f"session: {{conf: {json.dumps(conf)}}}\n"
        "sources:\n  rows:\n    subscribe: to-s3\n    startingOffsets: earliest\n"
        f"    maxOffsetsPerTrigger: {ROWS // 10}\n"
        "    decode: {value: {json: 'number bigint, key bigint, amount bigint, op string'}}\n"
        "steps:\n  plain: {sql: 'select number, key from rows'}\n"
        "sinks:\n  - {from: plain, name: sink, format: parquet, path: 's3a://lake/rows'}\n"
    )

    def batches() -> int:
        listed = files.get_file_info(
            FileSelector("lake/rows/_spark_metadata", allow_not_found=True)
        )
        return len(listed)

    assert _run_with_kills(file, tmp_path, batches, KILLS) == KILLS
    names = _listed(files)
    rows = ds.dataset(names, filesystem=files, format="parquet").to_table().to_pylist()
    assert sorted(each["number"] for each in rows) == list(range(ROWS))


def _listed(files: S3FileSystem) -> list[str]:
    """The files that Spark's log of the sink names; others are of batches that were repeated."""
    names: set[str] = set()
    for each in files.get_file_info(FileSelector("lake/rows/_spark_metadata")):
        with files.open_input_stream(each.path) as log:
            lines = log.read().decode().splitlines()[1:]
        names.update(json.loads(line)["path"].removeprefix("s3a://") for line in lines)
    return sorted(names)
