"""Finding a Java runtime for Spark and ZooKeeper."""

from pathlib import Path

import pytest

from headwater.common.exceptions import ServerUnavailable
from headwater.process.java import NoJava, find_java, version_of


def fake_java(home: Path, banner: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o700)
    return home


def test_java_home_has_precedence(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", 'openjdk version "21.0.2" 2024-01-16')
    on_path = fake_java(tmp_path / "other", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment, ()) == (named, 21)


def test_path_precedes_usual_directories(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "a", 'openjdk version "17.0.1"')
    fake_java(tmp_path / "jvm" / "b", 'openjdk version "25"')
    assert find_java({"PATH": str(on_path / "bin")}, [str(tmp_path / "jvm")]).home == on_path


def test_too_old_java_is_skipped(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    new = fake_java(tmp_path / "jvm" / "new", 'openjdk version "17.0.9" 2023-10-17')
    environment = {"JAVA_HOME": str(old), "PATH": ""}
    assert find_java(environment, [str(tmp_path / "jvm")]) == (new, 17)


def test_error_without_java_is_one_line_with_advice(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    with pytest.raises(
        NoJava, match=r"needs Java 17 or newer and found only Java 8 in .*apt"
    ) as no:
        find_java({"JAVA_HOME": str(old), "PATH": ""}, ())
    assert "\n" not in str(no.value)
    with pytest.raises(NoJava, match="found none"):
        find_java({"PATH": str(tmp_path)}, [str(tmp_path / "nowhere")])


def test_error_names_the_program_that_needs_java(tmp_path: Path) -> None:
    with pytest.raises(ServerUnavailable, match="ZooKeeper needs Java 17"):
        find_java({"PATH": str(tmp_path)}, (), needed_by="ZooKeeper")


@pytest.mark.parametrize(
    ("release", "version"),
    [('IMPLEMENTOR="X"\nJAVA_VERSION="11.0.2"\n', 11), ('JAVA_VERSION="1.8.0_392"\n', 8)],
)
def test_version_in_release_file_is_read_without_running_java(
    tmp_path: Path, release: str, version: int
) -> None:
    home = fake_java(tmp_path / "java", 'openjdk version "21.0.2"')
    (home / "release").write_text(release)
    assert version_of(home / "bin" / "java") == version


def test_release_file_without_executable_is_not_java(tmp_path: Path) -> None:
    (tmp_path / "release").write_text('JAVA_VERSION="21"\n')
    assert version_of(tmp_path / "bin" / "java") is None


def test_program_without_version_is_not_java(tmp_path: Path) -> None:
    assert version_of(fake_java(tmp_path, "nothing") / "bin" / "java") is None


def test_wrapper_on_path_names_its_java_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", 'openjdk version "17.0.1"')
    wrapper = tmp_path / "shims" / "java"
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\necho '    java.home = {home}' >&2\n")
    wrapper.chmod(0o700)
    assert find_java({"PATH": str(wrapper.parent)}, ()) == (home, 17)
