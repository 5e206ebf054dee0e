"""Pages: records of a topic, one record, and the live tail."""

from typing import Final

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.json_tree import json_tree
from headwater.console.pages.parts import (
    badge,
    counted,
    empty,
    fact_list,
    moment,
    number,
    section,
    select,
    size_text,
    table,
    text_input,
)
from headwater.console.pages.produce_form import produce_form
from headwater.console.pages.topics import tabs
from headwater.console.views.live_tail import RECORDS_PER_SECOND_MAX, TailRequest
from headwater.console.views.record_decoder import FORMATS, REGISTERED_FORMATS, Shown
from headwater.console.views.record_filter import PLACES
from headwater.console.views.records import RecordDetail, RecordList, RecordRow

PREVIEW_CHARS: Final = 160

_HEX_OFFSET_CHARS: Final = 10

_FORMATS: Final = [(each, each) for each in FORMATS]
_STARTS: Final = [
    ("newest", "Newest"),
    ("oldest", "Oldest"),
    ("offset", "From offset"),
    ("time", "From time"),
]
_PLACES: Final = [(each, each if each == "anywhere" else f"in {each}") for each in PLACES]
_LIMITS: Final = [(str(each), f"{each} per page") for each in (10, 50, 200)]


def records_page(page_data: RecordList, frame: Frame) -> Html:
    return frame.page(
        page_data.topic,
        tabs(page_data.topic, "Records"),
        _query_form(page_data, frame),
        _unused_start(page_data),
        _offline_notice(page_data),
        _search_notice(page_data),
        _rows(page_data),
        _pager(page_data, frame),
        None if frame.is_read_only else produce_form(page_data.topic, frame),
        place="topics",
        crumbs=[("Topics", "/topics")],
        is_live=True,
    )


def _query_form(page_data: RecordList, frame: Frame) -> Html:
    query = page_data.wish
    partitions = [("", "all partitions")] + [
        (str(each), f"partition {each}") for each in range(min(page_data.partitions, 1_000))
    ]
    chosen = "" if query.partition is None else str(query.partition)
    return tag(
        "form",
        select("start", _STARTS, query.start, label="Start at"),
        text_input(
            "at", query.at, placeholder="offset or time (UTC)", label="Offset or time (UTC)"
        ),
        select("partition", partitions, chosen, label="Partition"),
        tag(
            "input",
            type="search",
            name="filter",
            value=query.filter,
            placeholder="Filter by text",
            aria_label="Filter by text in key, value or headers",
            id="search",
            autocomplete="off",
            spellcheck="false",
        ),
        select("within", _PLACES, query.within, label="Filter in"),
        select("key_format", _prefixed("key", frame), query.key_format, label="Key format"),
        select("value_format", _prefixed("value", frame), query.value_format, label="Value format"),
        select("limit", _LIMITS, str(query.limit), label="Records per page"),
        tag(
            "label",
            tag(
                "input", type="checkbox", name="committed", value="1", checked=query.committed_only
            ),
            " committed only",
            class_="check",
        ),
        tag("button", "Show", class_="primary"),
        method="get",
        action=link_to("topics", page_data.topic, "records"),
        class_="row",
    )


def _prefixed(what: str, frame: Frame) -> list[tuple[str, str]]:
    return [
        (value, f"{what}: {text}")
        for value, text in _FORMATS
        if value not in REGISTERED_FORMATS or frame.has_registry
    ]


def _unused_start(page_data: RecordList) -> Html | None:
    """Warn about an offset or time that has no effect."""
    if not page_data.wish.at or page_data.wish.start in ("offset", "time"):
        return None
    text = f"'{page_data.wish.at}' has no effect: choose From offset or From time to start there."
    return tag("p", text, class_="notice warn", role="status")


def _offline_notice(page_data: RecordList) -> Html | None:
    if not page_data.offline:
        return None
    numbers = ", ".join(map(str, page_data.offline[:20]))
    text = f"Offline partitions are omitted: {numbers}."
    return tag("p", text, class_="notice warn", role="status")


def _search_notice(page_data: RecordList) -> Html | None:
    if page_data.ended_early:
        text = (
            f"Searched {counted(page_data.looked_at, 'record')} and stopped, to limit the load. "
            "The next page continues."
        )
        return tag("p", text, class_="notice warn", role="status")
    if page_data.wish.filter:
        looked_at = counted(page_data.looked_at, "record")
        text = f"Searched {looked_at} for '{page_data.wish.filter}'."
        return tag("p", text, class_="quiet", role="status")
    return None


def _rows(page_data: RecordList) -> Html:
    if not page_data.records:
        if page_data.older or page_data.newer:
            return empty(
                "There are no matching records here. Use the buttons below to search further."
            )
        return empty("The topic has no matching records.")
    rows = reversed(page_data.records) if page_data.wish.start == "newest" else page_data.records
    return tag("ol", heads(), [_row(page_data.topic, row) for row in rows], class_="records")


def heads() -> Html:
    """Column headings, hidden from screen readers, which get them per record."""
    names = ("Partition:offset", "Time (UTC)", "Key", "Value")
    return tag("li", [tag("span", each) for each in names], class_="heads", aria_hidden="true")


def _row(topic: str, row: RecordRow) -> Html:
    where = link_to("topics", topic, "records", row.partition, row.offset)
    line = tag(
        "summary",
        tag(
            "span",
            f"{row.partition}:{row.offset}",
            class_="place",
            title=f"partition {row.partition}, offset {row.offset}",
        ),
        tag("span", moment(row.timestamp_ms), class_="when"),
        tag("span", preview(row.key), class_="key"),
        tag("span", preview(row.value), class_="value"),
    )
    return tag(
        "li",
        tag(
            "details",
            line,
            tag("div", _content(row, None), tag("p", tag("a", "Open record", href=where))),
        ),
    )


def preview(part: Shown) -> Html:
    """The start of a key or value, on one line."""
    if part.format == "null":
        return tag("em", "null", class_="quiet")
    if part.size_bytes == 0:
        return tag("em", "empty", class_="quiet")
    text = part.text[: 2 * PREVIEW_CHARS]
    if part.format == "hex":
        # Without the offset column of the hex dump.
        text = text.partition("\n")[0][_HEX_OFFSET_CHARS:]
    return tag("code", " ".join(text.split())[:PREVIEW_CHARS])


def _content(row: RecordRow, where: str | None) -> Child:
    """`where` is the record's own path, on the page of a single record."""
    return (
        _part("Key", row, row.key, where and f"{where}/key"),
        _part("Value", row, row.value, where and f"{where}/value"),
        _headers(row),
    )


def _part(name: str, row: RecordRow, part: Shown, download: str | None) -> Html:
    details: list[Child] = [badge(part.format)]
    if part.format != "null":
        details.append(tag("span", size_text(part.size_bytes), class_="quiet"))
    if part.schema_id is not None:
        details.append(tag("span", f"schema {part.schema_id}", class_="quiet"))
    if part.note:
        details.append(tag("span", part.note, class_="warn-text"))
    if download and part.format != "null":
        label = f"Download the {name.lower()}"
        details.append(tag("a", "Download", href=download, aria_label=label, class_="download"))
    body: Child = None
    if part.format != "null":
        is_json = part.format in ("json", *REGISTERED_FORMATS)
        body = (
            json_tree(part.text, label=_label(name, row))
            if is_json
            else tag("pre", part.text, tabindex="0", class_=part.format)
        )
    rest = "download it to see all" if download else "open the record to see more"
    cut = tag("p", f"Truncated; {rest}.", class_="quiet")
    return tag(
        "div",
        tag("h2", name, " ", [(each, " ") for each in details]),
        body,
        cut if part.is_cut else None,
        class_="part",
    )


def _label(name: str, row: RecordRow) -> str:
    """Name of a region of a record, unique on a page with several records."""
    return f"{name} of {row.partition}:{row.offset}"


def _headers(row: RecordRow) -> Html | None:
    if not row.headers:
        return None
    hidden = row.all_headers - len(row.headers)
    return tag(
        "div",
        tag("h2", "Headers"),
        table(
            [("Name", ""), ("Value", "")],
            [
                (tag("code", each.name, class_="value"), _header_value(each.value))
                for each in row.headers
            ],
            label=_label("Headers", row),
        ),
        tag("p", f"And {hidden} more.", class_="quiet") if hidden else None,
        class_="part",
    )


def _header_value(part: Shown) -> Html:
    if part.format == "null":
        return tag("em", "null", class_="quiet")
    cut = tag("span", "… (truncated)", class_="quiet") if part.is_cut else None
    return tag("span", tag("code", part.text, class_="value"), cut)


def _pager(page_data: RecordList, frame: Frame) -> Html | None:
    if not page_data.older and not page_data.newer:
        return None
    kept = {
        key: value for key, value in frame.query.items() if key not in ("after", "before", "done")
    }

    def step(text: str, name: str, cursor: str | None, rel: str) -> Html:
        if cursor is None:
            return tag("span", text, class_="button off", aria_disabled="true")
        href = link_to("topics", page_data.topic, "records", query={**kept, name: cursor})
        return tag("a", text, href=href, rel=rel, class_="button")

    # "Next" follows the order of the page.
    is_newest_first = page_data.wish.start == "newest"
    older = step("Older", "before", page_data.older, "next" if is_newest_first else "prev")
    newer = step("Newer", "after", page_data.newer, "prev" if is_newest_first else "next")
    count = tag("span", counted(len(page_data.records), "record"))
    steps = (newer, count, older) if is_newest_first else (older, count, newer)
    return tag("nav", steps, class_="pager", aria_label="Pages of records")


def record_page(page_data: RecordDetail, frame: Frame) -> Html:
    row, topic = page_data.record, page_data.topic
    formats = {"key_format": page_data.key_format, "value_format": page_data.value_format}
    here = ("topics", topic, "records", row.partition)

    def step(text: str, offset: int | None, rel: str) -> Html:
        if offset is None:
            return tag("span", text, class_="button off", aria_disabled="true")
        href = link_to(*here, offset, query=formats)
        return tag("a", text, href=href, rel=rel, class_="button")

    return frame.page(
        f"{topic} {row.partition}:{row.offset}",
        tag(
            "form",
            select("key_format", _prefixed("key", frame), page_data.key_format, label="Key format"),
            select(
                "value_format", _prefixed("value", frame), page_data.value_format, label="Value as"
            ),
            tag("button", "Show"),
            method="get",
            action=link_to(*here, row.offset),
            class_="row",
        ),
        fact_list(
            [
                ("Partition", row.partition),
                ("Offset", number(row.offset)),
                (
                    "Appended" if row.is_append_time else "Created",
                    (moment(row.timestamp_ms), " UTC"),
                ),
            ]
        ),
        _content(row, link_to(*here, row.offset)),
        tag(
            "nav",
            step("← Previous offset", page_data.previous, "prev"),
            step("Next offset →", page_data.next, "next"),
            class_="pager",
            aria_label="Adjacent records",
        ),
        place="topics",
        crumbs=[
            ("Topics", "/topics"),
            (topic, link_to("topics", topic)),
            ("Records", link_to("topics", topic, "records")),
        ],
    )


def tail_page(page_data: TailRequest, frame: Frame) -> Html:
    query = {
        "filter": page_data.filter,
        "within": page_data.within,
        "key_format": page_data.key_format,
        "value_format": page_data.value_format,
        "partition": frame.query.get("partition", ""),
        "committed": "1" if page_data.committed_only else "",
    }
    return frame.page(
        page_data.topic,
        tabs(page_data.topic, "Live tail"),
        tag(
            "form",
            text_input(
                "partition", query["partition"], placeholder="all partitions", label="Partition"
            ),
            tag(
                "input",
                type="search",
                name="filter",
                value=page_data.filter,
                id="search",
                placeholder="Filter by text",
                aria_label="Filter by text",
            ),
            select("within", _PLACES, page_data.within, label="Filter in"),
            select("key_format", _prefixed("key", frame), page_data.key_format, label="Key format"),
            select(
                "value_format",
                _prefixed("value", frame),
                page_data.value_format,
                label="Value format",
            ),
            tag("button", "Start", class_="primary"),
            method="get",
            action=link_to("topics", page_data.topic, "tail"),
            class_="row",
        ),
        tag("noscript", tag("p", "The live tail needs JavaScript.", class_="notice warn")),
        tag(
            "p",
            tag("span", "connecting…", id="tail-state", role="status"),
            tag("button", "Pause", id="tail-pause", type="button"),
            tag("button", "Clear", id="tail-clear", type="button"),
            class_="row needs-script",
        ),
        section(
            "New records",
            tag(
                "ol",
                id="tail",
                class_="records",
                data_source=link_to("api", "topics", page_data.topic, "tail", query=query),
                data_topic=link_to("topics", page_data.topic, "records"),
            ),
            tag(
                "p",
                f"Shows at most {RECORDS_PER_SECOND_MAX} records per second and the last 500 "
                "records.",
                class_="quiet",
            ),
        ),
        place="topics",
        crumbs=[("Topics", "/topics")],
    )
