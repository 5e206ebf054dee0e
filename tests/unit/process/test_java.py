"""Finding a Java for Spark."""

from pathlib import Path

import pytest

from headwater.process.java import NoJava, find_java


def fake_java(home: Path, banner: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{banner}' >&2\n")
    program.chmod(0o700)
    return home


def test_the_home_that_is_named_comes_first(tmp_path: Path) -> None:
    named = fake_java(tmp_path / "named", 'openjdk version "21.0.2" 2024-01-16')
    on_path = fake_java(tmp_path / "other", 'openjdk version "17.0.1"')
    environment = {"JAVA_HOME": str(named), "PATH": str(on_path / "bin")}
    assert find_java(environment, ()) == (named, 21)


def test_the_path_comes_before_the_usual_places(tmp_path: Path) -> None:
    on_path = fake_java(tmp_path / "a", 'openjdk version "17.0.1"')
    fake_java(tmp_path / "jvm" / "b", 'openjdk version "25"')
    assert find_java({"PATH": str(on_path / "bin")}, [str(tmp_path / "jvm")]).home == on_path


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    new = fake_java(tmp_path / "jvm" / "new", 'openjdk version "17.0.9" 2023-10-17')
    environment = {"JAVA_HOME": str(old), "PATH": ""}
    assert find_java(environment, [str(tmp_path / "jvm")]) == (new, 17)


def test_without_java_one_line_says_what_to_do(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'java version "1.8.0_392"')
    with pytest.raises(
        NoJava, match=r"needs Java 17 or newer and found only Java 8 in .*apt"
    ) as no:
        find_java({"JAVA_HOME": str(old), "PATH": ""}, ())
    assert "\n" not in str(no.value)
    with pytest.raises(NoJava, match="found none"):
        find_java({"PATH": str(tmp_path)}, [str(tmp_path / "nowhere")])
