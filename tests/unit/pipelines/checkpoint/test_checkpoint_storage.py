"""Files of a checkpoint through Hadoop, in a JVM without a session."""

import os
from pathlib import Path

import pytest

from headwater.pipelines.check.sql_grammar import start_jvm
from headwater.pipelines.checkpoint.checkpoint_storage import HadoopStorage
from headwater.process.java import NoJava, find_java


def test_hadoop_reads_writes_lists_and_renames(tmp_path: Path) -> None:
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    gateway, process = start_jvm()
    try:
        conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
        storage = HadoopStorage(gateway.jvm, conf, f"file://{tmp_path}/ck")
        assert (storage.names("p/s/offsets"), storage.read("p/s/offsets/0")) == ([], None)
        storage.write("p/s/offsets/0", "one")
        storage.write("p/s/offsets/0", "zwölf")
        assert storage.read("p/s/offsets/0") == "zwölf"
        storage.rename("p/s", "p/t")
        assert (storage.names("p"), storage.names("p/t/offsets")) == (["t"], ["0"])
        # With a checksum that fits, or Hadoop would refuse to read it.
        assert (tmp_path / "ck" / "p" / "t" / "offsets" / ".0.crc").exists()
    finally:
        gateway.shutdown()
        with process:
            process.kill()
