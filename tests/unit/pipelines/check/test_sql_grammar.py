"""Spark's grammar without Spark: the JVM that has it comes and goes without a trace."""

import os
import threading
from pathlib import Path

import pytest

from headwater.common.exceptions import ServerUnavailable
from headwater.pipelines.check.pipeline_check import SqlError
from headwater.pipelines.check.sql_grammar import SparkGrammar
from headwater.process.java import NoJava, find_java


def test_only_the_grammar_reads_from_its_jvm_and_closes_its_pipes() -> None:
    """A thread of py4j's that did both failed `check` at random with a bad file descriptor."""
    try:
        find_java(os.environ)
    except NoJava as reason:
        pytest.skip(str(reason))
    before = threading.active_count()
    with SparkGrammar() as grammar:
        assert grammar.query("select 1") is None
        assert grammar.expression("amount +") == SqlError(line=1, text="syntax error at its end")
        assert threading.active_count() == before
        process = grammar._process
    assert process is not None
    assert process.returncode is not None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdin.closed
    assert process.stdout.closed


def test_java_that_does_not_start_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "17"\' >&2\n')
    java.chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with SparkGrammar() as grammar, pytest.raises(ServerUnavailable, match="does not start"):
        grammar.query("select 1")
