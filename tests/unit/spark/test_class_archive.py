"""Which archive of classes a session may start with."""

import os
from pathlib import Path

import pytest

from headwater.process.java import Java
from headwater.spark.class_archive import (
    adopt_archive,
    archive_folder,
    find_archive,
    fingerprint,
    reading_option,
)


@pytest.fixture
def java(tmp_path: Path) -> Java:
    home = tmp_path / "java"
    home.mkdir()
    (home / "release").write_text('JAVA_VERSION="17.0.1"\n')
    return Java(home, 17)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    (jars / "core.jar").write_bytes(b"classes")
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "SPARK_HOME": str(tmp_path / "spark")}


def prepared(java: Java, environment: dict[str, str]) -> Path:
    folder = archive_folder(environment)
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / "written"
    written.write_bytes(bytes(1_000))
    mark = fingerprint(java, Path(environment["SPARK_HOME"]) / "jars")
    return adopt_archive(written, folder, mark)


def test_without_an_archive_no_option_is_set(java: Java, environment: dict[str, str]) -> None:
    assert reading_option(java, environment) is None


def test_an_archive_that_was_made_is_used(java: Java, environment: dict[str, str]) -> None:
    path = prepared(java, environment)
    option = reading_option(java, environment)
    assert option is not None
    assert option.split()[0] == f"-XX:SharedArchiveFile={path}"


def test_one_that_is_not_whole_is_not_used(java: Java, environment: dict[str, str]) -> None:
    """Java would end with a bus error."""
    os.truncate(prepared(java, environment), 999)
    assert reading_option(java, environment) is None


def test_other_jars_or_another_java_need_another_one(
    java: Java, environment: dict[str, str]
) -> None:
    prepared(java, environment)
    jar = Path(environment["SPARK_HOME"]) / "jars" / "core.jar"
    jar.write_bytes(b"other classes")
    assert reading_option(java, environment) is None
    jar.write_bytes(b"classes")
    assert reading_option(java, environment) is not None
    (java.home / "release").write_text('JAVA_VERSION="17.0.2"\n')
    assert reading_option(java, environment) is None


def test_a_new_one_replaces_those_before(java: Java, environment: dict[str, str]) -> None:
    old = prepared(java, environment)
    (java.home / "release").write_text('JAVA_VERSION="17.0.2"\n')
    new = prepared(java, environment)
    assert not old.exists()
    assert find_archive(new.parent, new.name.split("-")[1]) == new


def test_a_path_that_java_could_not_tell_from_two_options_is_not_used(
    java: Java, environment: dict[str, str]
) -> None:
    environment["XDG_CACHE_HOME"] += "/with a space"
    prepared(java, environment)
    assert reading_option(java, environment) is None
