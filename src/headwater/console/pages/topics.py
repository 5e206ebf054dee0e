"""Pages: the list of topics, one topic, and its configs."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.charts import charts_section
from headwater.console.pages.configs import configs_list
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    brokers,
    empty,
    fact_list,
    labelled,
    name_link,
    number,
    page_tabs,
    pager,
    search_form,
    section,
    select,
    size,
    table,
    text_input,
    typed_confirmation,
)
from headwater.console.views.topics import TopicDetail, TopicList, TopicRow


def topics_page(page_data: TopicList, frame: Frame) -> Html:
    return frame.page(
        "Topics",
        search_form(
            "/topics",
            page_data.search,
            "Search topics",
            select(
                "sort",
                [("name", "by name"), ("partitions", "by partitions"), ("size", "by size")],
                page_data.sort,
                label="Order",
            ),
            tag(
                "label",
                tag(
                    "input",
                    type="checkbox",
                    name="internal",
                    value="1",
                    checked=page_data.with_internal,
                ),
                " show internal",
                class_="check",
            ),
        ),
        _list(page_data, frame),
        tag("p", tag("a", "Messages of several topics", href="/messages")),
        None if frame.is_read_only else _create(page_data, frame),
        place="topics",
        is_live=True,
    )


def _list(page_data: TopicList, frame: Frame) -> Child:
    if not page_data.topics.rows:
        if page_data.search:
            return empty(f"No topic matches '{page_data.search}'.")
        return empty("There are no topics yet.")
    return (
        table(
            [
                ("Topic", ""),
                ("Partitions", "num"),
                ("Replicas", "num wide"),
                ("Records", "num"),
                ("Size", "num"),
                ("", "wide"),
            ],
            [
                (
                    (
                        name_link(row.name, "topics", row.name),
                        " ",
                        badge("internal") if row.is_internal else None,
                        _state(row),
                    ),
                    number(row.partitions),
                    number(row.replicas),
                    number(row.records),
                    size(row.log_bytes),
                    tag("a", "Records", href=link_to("topics", row.name, "records")),
                )
                for row in page_data.topics.rows
            ],
            label="Topics",
        ),
        pager(page_data.topics, ["topics"], frame.query),
    )


def _state(row: TopicRow) -> Child:
    if row.offline:
        return badge(f"{row.offline} offline", "bad")
    if row.under_replicated:
        return badge(f"{row.under_replicated} under-replicated", "warn")
    return None


def _create(page_data: TopicList, frame: Frame) -> Html:
    return tag(
        "details",
        tag("summary", "Create a topic"),
        frame.form(
            "/topics",
            labelled("Name", text_input("name", frame.typed("name"), required=True)),
            labelled(
                "Partitions",
                text_input("partitions", frame.typed("partitions"), type="number"),
                hint="empty: the broker's default",
            ),
            labelled(
                "Replicas",
                text_input("replicas", frame.typed("replicas"), type="number"),
                hint=f"empty: the broker's default; at most {page_data.brokers}",
            ),
            labelled(
                "Configs",
                tag(
                    "textarea",
                    frame.typed("configs"),
                    name="configs",
                    rows=3,
                    spellcheck="false",
                    placeholder="retention.ms=86400000",
                ),
                hint="one name=value per line",
            ),
            tag("button", "Create", class_="primary"),
            class_="stack",
        ),
        class_="panel",
        open=not page_data.all_topics or frame.problem is not None,
        # Opened by the console, not by the user, so it does not pause the live reload.
        data_open="" if not page_data.all_topics and frame.problem is None else None,
    )


def tabs(topic: str, current: str) -> Html:
    pages = (
        ("Partitions", ()),
        ("Records", ("records",)),
        ("Live tail", ("tail",)),
        ("Groups", ("groups",)),
        ("Configs", ("configs",)),
    )
    links = [(name, link_to("topics", topic, *rest)) for name, rest in pages]
    return page_tabs(links, current, label="Pages of this topic")


def topic_page(page_data: TopicDetail, frame: Frame) -> Html:
    row = page_data.topic
    return frame.page(
        row.name,
        tabs(row.name, "Partitions"),
        fact_list(
            [
                ("Partitions", number(row.partitions)),
                ("Replicas", number(row.replicas)),
                ("Records", number(row.records)),
                ("Size (all replicas)", size(row.log_bytes)),
                ("State", _state(row) or badge("online, in sync", "good")),
                ("Id", tag("code", page_data.topic_id)),
            ]
        ),
        charts_section("Activity", page_data.charts),
        section("Partitions", _partitions(page_data)),
        pager(page_data.partitions, ["topics", row.name], frame.query),
        None if frame.is_read_only or row.is_internal else _changes(page_data, frame),
        place="topics",
        crumbs=[("Topics", "/topics")],
        is_live=True,
    )


def _partitions(page_data: TopicDetail) -> Html:
    topic = page_data.topic.name
    return table(
        [
            ("Partition", "num"),
            ("Leader", ""),
            ("Replicas", "wide"),
            ("In sync", ""),
            ("First offset", "num wide"),
            ("End offset", "num"),
            ("Records", "num"),
            ("Size", "num"),
        ],
        [
            (
                tag(
                    "a",
                    row.partition,
                    href=link_to("topics", topic, "records", query={"partition": row.partition}),
                    title="Show records",
                ),
                badge("none", "bad") if row.leader is None else row.leader,
                brokers(row.replicas),
                (brokers(row.isr), " ", badge("out of sync", "warn"))
                if row.is_under_replicated
                else brokers(row.isr),
                number(row.start),
                number(row.end),
                number(row.records),
                size(row.log_bytes),
            )
            for row in page_data.partitions.rows
        ],
        label="Partitions",
    )


def _changes(page_data: TopicDetail, frame: Frame) -> Child:
    name = page_data.topic.name
    more = tag(
        "details",
        tag("summary", "Add partitions"),
        frame.form(
            link_to("topics", name, "partitions"),
            tag(
                "p",
                "Keys may map to other partitions afterwards. Partitions cannot be removed again.",
            ),
            labelled(
                "Total partitions",
                text_input("partitions", str(page_data.topic.partitions + 1), type="number"),
            ),
            tag("button", "Add", class_="primary"),
            class_="stack",
        ),
        class_="panel",
    )
    records_deletion = tag(
        "details",
        tag("summary", "Delete records"),
        frame.form(
            link_to("topics", name, "records", "delete"),
            tag(
                "p",
                "The topic and its offsets remain. Groups that have not consumed these records "
                "will not see them. This cannot be undone.",
            ),
            labelled(
                "Partition", text_input("partition", type="number"), hint="empty: all partitions"
            ),
            labelled(
                "Before offset",
                text_input("offset", type="number"),
                hint="empty: all records",
            ),
            typed_confirmation(name, "Delete the records"),
            class_="stack",
        ),
        class_="panel dangerous",
    )
    topic_deletion = tag(
        "details",
        tag("summary", "Delete this topic"),
        frame.form(
            link_to("topics", name, "delete"),
            tag("p", "All its records are deleted on all brokers. This cannot be undone."),
            typed_confirmation(name, "Delete the topic"),
            class_="stack",
        ),
        class_="panel dangerous",
    )
    return (more, records_deletion, topic_deletion)


def configs_page(page_data: TopicDetail, frame: Frame) -> Html:
    name = page_data.topic.name
    return frame.page(
        name,
        tabs(name, "Configs"),
        section("Configs", configs_list(page_data.configs, frame, ["topics", name, "configs"])),
        place="topics",
        crumbs=[("Topics", "/topics")],
    )
