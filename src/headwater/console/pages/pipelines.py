"""Pages: pipelines and one run."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.charts import value_text
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    empty,
    fact_list,
    moment,
    name_link,
    number,
    section,
    table,
)
from headwater.console.views.pipelines import PipelineQueryRow, RunDetail, RunList, RunRow

_KINDS = {
    "running": "good",
    "finished": "accent",
    "stopped": "",
    "failed": "bad",
    "died": "bad",
}


def pipelines_page(page_data: RunList, frame: Frame) -> Html:
    return frame.page(
        "Pipelines",
        _list(page_data),
        place="pipelines",
        is_live=True,
    )


def _list(page_data: RunList) -> Child:
    if not page_data.runs:
        return empty(
            "No pipeline has published its state to this cluster. A run of ",
            tag("code", "headwater pipeline run"),
            " does so by itself if its file has bootstrap servers.",
        )
    return table(
        [
            ("Pipeline", ""),
            ("State", ""),
            ("Rows per second", "num"),
            ("Lag", "num"),
            ("Batch", "num wide"),
            ("Dead letters", "num wide"),
            ("Host", "wide"),
            ("Last report (UTC)", "wide"),
        ],
        [
            (
                name_link(row.name, "pipelines", row.name),
                _state(row),
                _rate(row.rows_per_second),
                number(row.lag),
                _ms(row.batch_ms),
                number(row.dead_letters),
                row.host,
                moment(row.told_ms),
            )
            for row in page_data.runs
        ],
        label="Pipelines",
    )


def _state(row: RunRow) -> Child:
    return (
        badge(row.state, _KINDS.get(row.state, "warn")),
        " ",
        badge("stop requested", "warn") if row.is_stop_requested else None,
    )


def pipeline_page(page_data: RunDetail, frame: Frame) -> Html:
    run = page_data.run
    return frame.page(
        run.name,
        fact_list(
            [
                ("State", _state(run)),
                ("Rows per second", _rate(run.rows_per_second)),
                ("Lag", number(run.lag)),
                ("Batch time", _ms(run.batch_ms)),
                ("Dead letters in the last batch", number(run.dead_letters)),
                ("Host", f"{run.host} (process {run.pid})"),
                ("File", tag("code", run.file)),
                ("Started (UTC)", moment(run.started_ms)),
                ("Last report (UTC)", moment(run.told_ms)),
            ]
        ),
        section("Queries", _sinks(run)),
        None if frame.is_read_only or not run.is_alive else _stop(run, frame),
        _died(run),
        place="pipelines",
        crumbs=[("Pipelines", "/pipelines")],
        is_live=True,
    )


def _died(run: RunRow) -> Html | None:
    if run.state != "died":
        return None
    text = (
        "The run has not reported for a minute and did not say that it ended: its process was "
        "killed, its machine is down, or it cannot reach this cluster."
    )
    return tag("p", text, class_="notice bad")


def _sinks(run: RunRow) -> Child:
    if not run.sinks:
        return empty("The run has not started its queries.")
    return table(
        [
            ("Sink", ""),
            ("State", ""),
            ("Rows per second", "num"),
            ("Rows", "num wide"),
            ("Lag", "num"),
            ("Batch", "num wide"),
            ("Late rows dropped", "num wide"),
            ("Restarts", "num"),
            ("Error", "wide"),
        ],
        [_sink(each) for each in run.sinks],
        label="Queries",
    )


def _sink(row: PipelineQueryRow) -> tuple[Child, ...]:
    return (
        (
            tag("span", row.name, class_="name"),
            " ",
            badge("dead letters") if row.is_dead_letters else None,
        ),
        badge(row.state, _KINDS.get(row.state, "warn")),
        _rate(row.rows_per_second),
        number(row.rows),
        number(row.lag),
        _ms(row.batch_ms),
        number(row.dropped_rows),
        number(row.restarts),
        tag("span", row.error, class_="bad-text value") if row.error else "-",
    )


def _stop(run: RunRow, frame: Frame) -> Html:
    if run.is_stop_requested:
        return tag(
            "p", "The run has been asked to stop, and ends its batches first.", class_="quiet"
        )
    return tag(
        "details",
        tag("summary", "Stop this pipeline"),
        frame.form(
            link_to("pipelines", run.name, "stop"),
            tag(
                "p",
                "The run ends its batches and stops. Start it again with ",
                tag("code", "headwater pipeline run"),
                "; it continues from its checkpoint.",
            ),
            tag("button", "Stop", class_="danger"),
            class_="stack",
        ),
        class_="panel dangerous",
    )


def _rate(value: float | None) -> Child:
    return value_text(value, "records/s") if value is not None else number(None)


def _ms(value: int | None) -> Child:
    return value_text(value, "ms") if value is not None else number(None)
