"""Page: the newest records of several topics."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import counted, empty, moment, name_link, select, table
from headwater.console.pages.records import preview
from headwater.console.views.messages import RECORDS_PER_TOPIC_MAX, TOPICS_MAX, MessageList

_LIMITS = [(str(each), f"{each} per topic") for each in (10, 50, RECORDS_PER_TOPIC_MAX)]
_SUGGESTED_MAX = 500


def messages_page(page_data: MessageList, frame: Frame) -> Html:
    return frame.page(
        "Messages of several topics",
        _form(page_data),
        _notes(page_data),
        _list(page_data),
        place="topics",
        crumbs=[("Topics", "/topics")],
        is_live=True,
    )


def _form(page_data: MessageList) -> Html:
    names = [tag("option", value=each) for each in page_data.all_topics[:_SUGGESTED_MAX]]
    fields = [
        tag(
            "input",
            type="text",
            name=f"topic{index}",
            value=page_data.topics[index] if index < len(page_data.topics) else None,
            placeholder=f"topic {index + 1}",
            aria_label=f"Topic {index + 1}",
            list="topic-names",
            autocomplete="off",
            spellcheck="false",
        )
        for index in range(TOPICS_MAX)
    ]
    return tag(
        "form",
        tag("datalist", names, id="topic-names"),
        fields,
        tag(
            "input",
            type="search",
            name="filter",
            value=page_data.filter,
            placeholder="Filter by text",
            aria_label="Filter by text in key, value or headers",
            id="search",
            autocomplete="off",
            spellcheck="false",
        ),
        select("limit", _LIMITS, str(page_data.limit), label="Records per topic"),
        tag("button", "Show", class_="primary"),
        method="get",
        action="/messages",
        class_="row",
    )


def _notes(page_data: MessageList) -> Child:
    if not page_data.ended_early:
        return None
    names = ", ".join(page_data.ended_early)
    text = (
        f"Searched {counted(page_data.looked_at, 'record')} and stopped in {names}, to limit the "
        "load. The page of the topic searches further."
    )
    return tag("p", text, class_="notice warn", role="status")


def _list(page_data: MessageList) -> Html:
    if not page_data.topics:
        return empty("Choose topics to see their newest records in order of time.")
    if not page_data.messages:
        return empty("The topics have no matching records.")
    return table(
        [
            ("Time (UTC)", ""),
            ("Topic", "keep"),
            ("Record", ""),
            ("Key", "wide keep"),
            ("Value", ""),
        ],
        [
            (
                moment(each.record.timestamp_ms),
                name_link(each.topic, "topics", each.topic, "records"),
                tag(
                    "a",
                    f"{each.record.partition}:{each.record.offset}",
                    href=link_to(
                        "topics", each.topic, "records", each.record.partition, each.record.offset
                    ),
                    aria_label=f"{each.topic} {each.record.partition}:{each.record.offset}",
                ),
                tag("span", preview(each.record.key), class_="value"),
                tag("span", preview(each.record.value), class_="value"),
            )
            for each in page_data.messages
        ],
        label="Messages",
    )
