"""Permissions of local files are set by the JVM, not by a child process for each file."""

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.spark.local_permissions import CLASS, set_permissions_in_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _local(spark: "SparkSession", *, is_raw: bool = False) -> Any:
    jvm: Any = spark.sparkContext._jvm
    local = jvm.org.apache.hadoop.fs.FileSystem.getLocal(
        spark.sparkContext._jsc.hadoopConfiguration()
    )
    return local.getRaw() if is_raw else local


def test_hadoops_local_files_get_the_permissions_that_are_asked_for(
    spark: "SparkSession", tmp_path: Path
) -> None:
    assert _local(spark, is_raw=True).getClass().getName() == CLASS
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/file")
    _local(spark).create(path, True).close()
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    for mode in (0o600, 0o751, 0o1777):
        permission = jvm.org.apache.hadoop.fs.permission.FsPermission(f"{mode:o}")
        _local(spark).setPermission(path, permission)
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_files_keep_their_checksums(spark: "SparkSession", tmp_path: Path) -> None:
    jvm: Any = spark.sparkContext._jvm
    _local(spark).create(jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/file"), True).close()
    assert (tmp_path / ".file.crc").exists()


def test_a_second_session_of_the_same_jvm_finds_it_replaced(spark: "SparkSession") -> None:
    assert set_permissions_in_java(spark)
