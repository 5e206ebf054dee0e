"""One line out of the pages that Spark writes."""

import pytest

from headwater.pipelines.run.failure_reason import reason_of, whole_trace, without_class

FROM_A_WORKER = """\
[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Job aborted due to stage \
failure: Task 0 in stage 3.0 failed 4 times, most recent failure: Lost task 0.3 in stage 3.0: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/x/worker.py", line 1, in main
    process()
  File "/x/range_rows.py", line 20, in rows_of
    raise DataLost("t-0 lost 5 to 9")
headwater.spark.exceptions.DataLost: t-0 lost 5 to 9

	at org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
Driver stacktrace: SQLSTATE: XXKST
"""

FROM_A_BATCH = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/py4j/protocol.py", line 326, in get_return_value
py4j.protocol.Py4JJavaError: An error occurred while calling o99.save.
: org.apache.spark.SparkException: Job aborted.
	at org.apache.spark.sql.Foo.bar(Foo.scala:1)
Caused by: java.lang.ClassCastException: class A cannot be cast to class B
	... 34 more
"""


WITHOUT_THE_PACKAGE = """\
An error occurred while calling o77.start.
: org.apache.spark.SparkException:
Error from python worker:
  /usr/bin/python3: Error while finding module specification for 'headwater.spark.python_daemon' \
(ModuleNotFoundError: No module named 'headwater')
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
"""

WITHOUT_A_DAEMON = """\
Job aborted due to stage failure: Task 1 in stage 0.0 failed 4 times, most recent failure: \
org.apache.spark.SparkException: EOFException occurred while reading the port number from \
headwater.spark.python_daemon's stdout.
"""

WITHOUT_PYTHON = """\
Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times, most recent failure: \
java.io.IOException: Cannot run program "/opt/venv/bin/python": error=2, No such file or directory
"""

WITHOUT_A_MASTER = """\
An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
	at org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:1)
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (FROM_A_WORKER, "headwater.spark.exceptions.DataLost: t-0 lost 5 to 9"),
        (FROM_A_BATCH, "java.lang.ClassCastException: class A cannot be cast to class B"),
        ("[STREAM_FAILED] Query [id = 1] terminated with exception: no column x", "no column x"),
        ("no column x\n=== Streaming Query ===\nIdentifier: killed [id = 1]", "no column x"),
        ("\n  only this\nand more", "only this"),
        (
            WITHOUT_A_MASTER,
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
        ),
        *(
            (
                text,
                "the Python of an executor has no package headwater: install it there, or ship an "
                "environment with headwater pipeline package; see the guide Running on a cluster",
            )
            for text in (WITHOUT_THE_PACKAGE, WITHOUT_A_DAEMON)
        ),
        (
            WITHOUT_PYTHON,
            "an executor has no Python at /opt/venv/bin/python: install it there, ship an "
            "environment with headwater pipeline package, or set spark.pyspark.python; see the "
            "guide Running on a cluster",
        ),
        ("", "ValueError"),
    ],
)
def test_the_reason_is_what_was_raised_last(text: str, reason: str) -> None:
    assert reason_of(ValueError(text)) == reason


def test_a_reason_is_no_page() -> None:
    assert len(reason_of(ValueError("x" * 10_000))) == 500


def test_a_failure_of_ours_needs_no_class_to_be_understood() -> None:
    assert without_class("headwater.spark.exceptions.DataLost: gone") == "gone"
    assert without_class("java.io.IOException: gone") == "java.io.IOException: gone"


class _Captured(Exception):
    """As PySpark translates an exception of Java."""

    def __init__(self, text: str, trace: str, cause: "Exception | None" = None) -> None:
        super().__init__(text)
        self._stackTrace = trace
        self._cause = cause


IO_TRACE = """\
org.apache.spark.SparkException: Job aborted.
	at org.apache.spark.Foo.bar(Foo.scala:1)
Caused by: java.io.IOException: No space left on device
	at java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
	... 10 more
"""


def test_a_failure_of_a_query_keeps_the_cause_of_java() -> None:
    inner = _Captured("Job aborted.", IO_TRACE)
    error = _Captured(
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted.", "", inner
    )
    said = "Job aborted.; caused by java.io.IOException: No space left on device"
    assert reason_of(error) == said
    assert "FileDispatcherImpl.write0" in whole_trace(error)


def test_a_cause_without_a_message_is_named_by_its_class() -> None:
    error = _Captured(
        "boom", "x.y.Outer: boom\n\tat a\nCaused by: java.lang.NullPointerException\n"
    )
    assert reason_of(error) == "boom; caused by java.lang.NullPointerException"


def test_a_message_is_not_repeated_as_its_own_cause() -> None:
    trace = "org.apache.spark.sql.AnalysisException: [NO] no such column\n\tat a.b.C(D.scala:1)"
    assert reason_of(_Captured("[NO] no such column", trace)) == "[NO] no such column"


def test_a_long_message_leaves_room_for_its_cause() -> None:
    error = _Captured("x" * 1_000, "a.B: x\nCaused by: java.io.IOException: disk\n")
    assert reason_of(error).endswith("; caused by java.io.IOException: disk")
    assert len(reason_of(error)) <= 500
