"""What Spark raises becomes one line."""

import importlib

import pytest
from pyspark.errors import AnalysisException

from headwater.pipelines.run.spark_errors import SparkFailed, in_one_line


def test_what_comes_untranslated_from_java_is_one_line() -> None:
    lost = importlib.import_module("py4j.protocol").Py4JNetworkError
    said = "An error occurred while calling o1.start.\njava.io.IOException: No space left\n\tat x"
    with pytest.raises(SparkFailed, match=r"^java\.io\.IOException: No space left$"), in_one_line():
        raise lost(said)


def test_what_pyspark_translates_is_one_line() -> None:
    with pytest.raises(SparkFailed, match="no such column"), in_one_line():
        raise AnalysisException("no such column\n'Project")


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(ZeroDivisionError), in_one_line():
        raise ZeroDivisionError
