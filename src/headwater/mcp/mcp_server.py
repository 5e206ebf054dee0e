"""Build the protocol server: which tools it has, their limits and their errors."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Sequence
from importlib.util import find_spec
from typing import Any, Final

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

import headwater
from headwater.client.errors import KafkaError
from headwater.common.exceptions import HeadwaterError
from headwater.console.console_errors import error_for
from headwater.mcp.bounded_answers import AnswerLimits, answer_text, printable_text
from headwater.mcp.cluster_tools import DATA_NOTE, ClusterTools
from headwater.mcp.write_tools import WriteTools

NAME: Final = "headwater"
_ERROR_CHARS_MAX: Final = 2_000
_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_WRITES: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
_INSTRUCTIONS: Final = """\
Tools for the Kafka cluster {bootstrap}. {access}

{data_note}

Answers are limited to {rows} rows, {bytes} bytes and {seconds:g} seconds; `truncated` says what was
left out. To find out why a consumer is slow, call explain_group_lag. To see records, call
sample_records{sql}."""

Tool = Callable[..., Awaitable[dict[str, Any]]]
log = logging.getLogger(__name__)


def mcp_server(
    bootstrap: str, reading: ClusterTools, writing: WriteTools | None, limits: AnswerLimits
) -> MCPServer[Any]:
    """Return a server with the tools; `writing` is None for a server that only reads."""
    has_sql = find_spec("duckdb") is not None
    server: MCPServer[Any] = MCPServer(
        NAME,
        title="Headwater",
        version=headwater.__version__,
        instructions=_INSTRUCTIONS.format(
            bootstrap=bootstrap,
            access="They only read." if writing is None else "Some of them write; none deletes.",
            data_note=DATA_NOTE,
            rows=limits.rows,
            bytes=limits.bytes,
            seconds=limits.seconds,
            sql=" or sql" if has_sql else "",
        ),
        log_level="WARNING",
    )
    reads: list[Tool] = [
        reading.describe_cluster,
        reading.list_topics,
        reading.describe_topic,
        reading.sample_records,
        reading.list_groups,
        reading.describe_group,
        reading.explain_group_lag,
        reading.list_schemas,
        reading.get_schema,
        reading.list_pipelines,
    ]
    if has_sql:
        reads.append(reading.sql)
    writes: Sequence[Tool] = (
        () if writing is None else (writing.produce_record, writing.create_topic)
    )
    for tools, annotations in ((reads, _READS), (writes, _WRITES)):
        for tool in tools:
            server.add_tool(bounded(tool, limits), annotations=annotations, structured_output=False)
    return server


def bounded(tool: Tool, limits: AnswerLimits) -> Callable[..., Awaitable[str]]:
    """Limit a tool in time and size, and report its errors as text for the caller."""

    @functools.wraps(tool)
    async def call(*given: Any, **named: Any) -> str:
        name = getattr(tool, "__name__", "tool")
        try:
            async with asyncio.timeout(limits.seconds):
                answer = await tool(*given, **named)
        except KafkaError as error:
            # Before TimeoutError, which KafkaTimeout is too: its own message says more.
            raise _tool_error(name, error) from error
        except TimeoutError:
            log.warning("Tool ended: name=%s reason=timeout seconds=%g", name, limits.seconds)
            raise ToolError(
                f"no answer within {limits.seconds:g} s: ask for less, such as one partition or a "
                "shorter time"
            ) from None
        except HeadwaterError as error:
            raise _tool_error(name, error) from error
        log.info("Tool called: name=%s", name)
        return answer_text(answer, limits)

    return call


def _tool_error(name: str, error: HeadwaterError) -> ToolError:
    message = error_for(error).message[:_ERROR_CHARS_MAX]
    log.info("Tool failed: name=%s error=%r", name, message)
    # An error of SQL points to a place in the line above.
    return ToolError("\n".join(map(printable_text, message.splitlines())))
