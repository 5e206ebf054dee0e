"""Run one SQL query over topics, without files, bounded in rows and time.

Note: each query has a session of its own, so that no table of one caller is seen by another.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headwater.mcp.bounded_answers import AnswerLimits

MEMORY_LIMIT: Final = "512MB"
_END_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAccess:
    """Where queries read: brokers, consumer settings and registry."""

    bootstrap: str
    settings: Mapping[str, object]
    registry_url: str | None
    registry_settings: Mapping[str, str]


async def run_sql(
    access: SqlAccess, query: str, rows_max: int, limits: AnswerLimits
) -> dict[str, Any]:
    """Run a query; return columns, rows and warnings. Raises `QueryError`."""
    from headwater.sql import QueryProgress

    progress = QueryProgress()
    running = asyncio.create_task(
        asyncio.to_thread(_run, access, query, min(rows_max, limits.rows), progress)
    )
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        running.add_done_callback(_retrieve)
        progress.cancel()
        # The thread ends with its query, usually at once; it may still wait for a broker.
        await asyncio.wait((running,), timeout=_END_S)
        raise


def _retrieve(ended: "asyncio.Task[dict[str, Any]]") -> None:
    """Look at the error of a query that nothing waits for any more."""
    if not ended.cancelled():
        ended.exception()


def _run(access: SqlAccess, query: str, rows_max: int, progress: Any) -> dict[str, Any]:
    import headwater.sql
    from headwater.client.consumer.consumer_settings import ConsumerSettings
    from headwater.client.settings import supported_settings

    with (
        headwater.sql.connect(
            access.bootstrap,
            settings=supported_settings(ConsumerSettings, access.settings),
            registry=access.registry_url,
            registry_settings=access.registry_settings,
            memory_limit=MEMORY_LIMIT,
            external_access=False,
        ) as session,
        session.sql(query, progress=progress) as result,
    ):
        columns = result.columns
        rows: list[tuple[Any, ...]] = []
        has_more = False
        for values in result:
            if len(rows) == rows_max:
                has_more = True
                break
            rows.append(values)
        return {
            "columns": columns,
            "rows": rows,
            "has_more_rows": has_more,
            "records_read": result.statistics.records_read,
            "warnings": result.warnings(),
        }
