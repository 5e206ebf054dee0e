"""Check SQL with Spark's parser in a bare JVM, without a session.

A session takes five to ten seconds to start and half a gigabyte; the parser alone takes one or two
seconds. It checks the syntax only, not whether columns exist.
"""

import importlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from headwater.common.exceptions import ServerUnavailable
from headwater.pipelines.check.pipeline_check import SqlError
from headwater.process.java import find_java

# Options of a short-lived JVM: quick startup, little memory.
_JVM_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")


class SparkGrammar:
    """Parses SQL with Spark's parser, in a JVM that `close` ends.

    The JVM is started by the first call.
    """

    def __init__(self) -> None:
        self._gateway: Any = None
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway = None
        process, self._process = self._process, None
        if process is not None:
            with process:
                # Otherwise it would run until this process ends.
                process.kill()

    def query(self, sql: str) -> SqlError | None:
        return self._parse(sql, lambda parser: parser.singleStatement())

    def expression(self, sql: str) -> SqlError | None:
        return self._parse(sql, lambda parser: parser.singleExpression())

    def _parse(self, sql: str, rule: Callable[[Any], object]) -> SqlError | None:
        if self._gateway is None:
            self._gateway, self._process = start_jvm()
        antlr = self._gateway.jvm.org.antlr.v4.runtime
        sparks = self._gateway.jvm.org.apache.spark.sql.catalyst.parser
        # Keywords are in capitals in the grammar; Spark's parser capitalizes its input in this way.
        lexer = sparks.SqlBaseLexer(antlr.CharStreams.fromString(_capitalised(sql)))
        lexer.removeErrorListeners()
        parser = sparks.SqlBaseParser(antlr.CommonTokenStream(lexer))
        parser.removeErrorListeners()
        parser.setErrorHandler(antlr.BailErrorStrategy())
        try:
            rule(parser)
        except _java_error() as error:
            return _sql_error(sql, getattr(error, "java_exception", None))
        return None


def _java_error() -> type[Exception]:
    """Return the class that py4j, which has no types, raises for Java exceptions."""
    found: type[Exception] = importlib.import_module("py4j.protocol").Py4JJavaError
    return found


def _capitalised(sql: str) -> str:
    """Capitalize letter by letter, so that positions in the text stay the same."""
    return "".join(each.upper() if len(each.upper()) == 1 else each for each in sql)


def _sql_error(sql: str, raised: Any) -> SqlError:
    cause = raised.getCause()
    token = None if cause is None else cause.getOffendingToken()
    if token is None:
        return SqlError(line=1, text="syntax error")
    line, column = int(token.getLine()), int(token.getCharPositionInLine())
    lines = sql.splitlines() or [""]
    rest = lines[line - 1][column:] if line <= len(lines) else ""
    near = rest[: len(str(token.getText()))] if rest else ""
    where = f"near {near!r}" if near else "at its end"
    return SqlError(line=min(line, len(lines)), text=f"syntax error {where}")


def start_jvm() -> "tuple[Any, subprocess.Popen[bytes]]":
    """Start a JVM with Spark's classes; return a gateway to it and its process."""
    try:
        import pyspark

        py4j = importlib.import_module("py4j.java_gateway")
    except ImportError:
        raise ServerUnavailable(
            "checking SQL needs pyspark: pip install 'headwater[spark]'"
        ) from None
    java = find_java(os.environ)
    jars = Path(pyspark.__file__).parent / "jars"
    # py4j could start it too, but its threads read the output and close the pipe at any time.
    process = subprocess.Popen(
        [
            str(java.home / "bin" / "java"),
            "-classpath",
            str(jars / "*"),
            *_JVM_OPTIONS,
            "py4j.GatewayServer",
            # Its standard input is that pipe: it exits when this process exits.
            "--die-on-broken-pipe",
            # Without a token, any process that can reach the port could run Java as this user.
            "--enable-auth",
            "0",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    port, token = _announced(process)
    parameters = py4j.GatewayParameters(port=port, auth_token=token)
    return py4j.JavaGateway(gateway_parameters=parameters), process


def _announced(process: "subprocess.Popen[bytes]") -> tuple[int, str]:
    """Read the port and the token, the two lines that the JVM prints."""
    assert process.stdout is not None
    port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
    if not port.isdigit() or not token:
        with process:
            process.kill()
        raise ServerUnavailable("checking SQL needs Java, which does not start")
    return int(port), token.decode()
