"""Pages: the list of groups, one group, and the preview of an offset reset."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.offset_reset_plan import ResetPlan, ResetRow, write_plan
from headwater.console.pages.charts import charts_section
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    empty,
    fact_list,
    labelled,
    name_link,
    number,
    pager,
    search_form,
    section,
    select,
    table,
    text_input,
    typed_confirmation,
)
from headwater.console.views.groups import GroupDetail, GroupList, GroupRow, LagRow

_WAYS = [
    ("earliest", "to the beginning"),
    ("latest", "to the end"),
    ("offset", "to an offset"),
    ("time", "to a time"),
    ("shift", "by a number of records"),
]
_ROWS_SHOWN_MAX = 1_000


def groups_page(page_data: GroupList, frame: Frame) -> Html:
    states = [("", "in any state")] + [(each, each) for each in page_data.states]
    return frame.page(
        "Groups",
        search_form(
            "/groups",
            page_data.search,
            "Search groups",
            select("state", states, page_data.state, label="State"),
            select(
                "sort",
                [("name", "by name"), ("lag", "by lag")],
                page_data.sort,
                label="Order",
            ),
        ),
        _list(page_data, frame),
        place="groups",
        is_live=True,
    )


def _list(page_data: GroupList, frame: Frame) -> Child:
    if not page_data.groups.rows:
        if page_data.search or page_data.state:
            return empty("No group matches.")
        return empty("There are no groups. A group appears when a consumer joins it.")
    return (
        table(
            [
                ("Group", ""),
                ("State", ""),
                ("Type", "wide"),
                ("Members", "num"),
                ("Topics", "num wide"),
                ("Lag", "num"),
            ],
            [_row(row) for row in page_data.groups.rows],
            label="Groups",
        ),
        pager(page_data.groups, ["groups"], frame.query),
    )


def _row(row: GroupRow) -> tuple[Child, ...]:
    return (
        name_link(row.id or "(no name)", "groups", row.id),
        (state_badge(row.state), " ", badge("unknown", "bad") if row.complaint else None),
        row.type,
        number(row.members),
        number(row.topics),
        number(row.lag),
    )


def state_badge(state: str) -> Html:
    kinds = {"stable": "good", "empty": "", "dead": "bad"}
    return badge(state, kinds.get(state.lower(), "warn"))


def group_page(page_data: GroupDetail, frame: Frame) -> Html:
    return frame.page(
        page_data.id,
        fact_list(
            [
                ("State", state_badge(page_data.state)),
                ("Type", page_data.type),
                ("Assignor", page_data.assignor or "-"),
                ("Members", number(page_data.all_members)),
                ("Total lag", number(page_data.lag)),
            ]
        ),
        charts_section("Lag", page_data.charts),
        section("Offsets", _lags(page_data, frame)),
        section("Members", _members(page_data)),
        None if frame.is_read_only else _changes(page_data, frame),
        place="groups",
        crumbs=[("Groups", "/groups")],
        is_live=True,
    )


def _lags(page_data: GroupDetail, frame: Frame) -> Child:
    if not page_data.lags.rows:
        return empty("The group has no committed offsets and no assigned partitions.")
    return (
        table(
            [
                ("Topic", ""),
                ("Partition", "num"),
                ("Offset", "num"),
                ("End", "num"),
                ("Lag", "num"),
                ("Client", "wide"),
            ],
            [
                (
                    name_link(row.topic, "topics", row.topic),
                    row.partition,
                    number(row.offset),
                    number(row.end),
                    (_warning(row), number(row.lag)),
                    tag("span", row.client or "-", class_="value"),
                )
                for row in page_data.lags.rows
            ],
            label="Offsets",
        ),
        pager(page_data.lags, ["groups", page_data.id], frame.query),
    )


def _warning(row: LagRow) -> Child:
    """Warn about offsets outside of the log, which the lag does not show."""
    if row.is_beyond_the_end:
        title = "The offset is beyond the log end: the topic was recreated or lost records."
        return (badge("beyond the log end", "bad", title=title), " ")
    if row.has_missed_records:
        title = f"The log starts at {row.start}: records were deleted before they were consumed."
        return (badge("records missed", "warn", title=title), " ")
    return None


def _members(page_data: GroupDetail) -> Child:
    if not page_data.members:
        return empty("The group has no members.")
    hidden = page_data.all_members - len(page_data.members)
    return (
        table(
            [("Client", ""), ("Host", ""), ("Member", "wide"), ("Assignment", "")],
            [
                (
                    tag("span", row.client or "-", class_="value"),
                    tag("code", row.host, class_="value"),
                    tag("code", row.instance or row.id, class_="value"),
                    _assignment(row.partitions),
                )
                for row in page_data.members
            ],
            label="Members",
        ),
        tag("p", f"And {hidden} more.", class_="quiet") if hidden else None,
    )


def _assignment(partitions: tuple[str, ...]) -> Child:
    if not partitions:
        return tag("span", "none", class_="quiet")
    if len(partitions) <= 3:
        return tag("span", ", ".join(partitions), class_="value")
    return tag(
        "details",
        tag("summary", f"{len(partitions)} partitions"),
        tag("span", ", ".join(partitions[:500]), class_="value"),
    )


def _changes(page_data: GroupDetail, frame: Frame) -> Child:
    topics = [("", "all topics with committed offsets")] + [
        (each, each) for each in page_data.topics
    ]
    reset = tag(
        "details",
        tag("summary", "Reset offsets"),
        tag(
            "form",
            tag("p", "Shows a preview first. Nothing changes until you confirm it."),
            labelled("Topic", select("topic", topics, "")),
            labelled("Go", select("to", _WAYS, "earliest")),
            labelled(
                "Value",
                text_input("value"),
                hint="an offset, a time such as 2026-01-31T12:00 (UTC), or a number such as -100",
            ),
            tag("button", "Preview", class_="primary"),
            method="get",
            action=link_to("groups", page_data.id, "reset"),
            class_="stack",
        ),
        class_="panel",
    )
    if page_data.is_empty:
        deletion: Child = frame.form(
            link_to("groups", page_data.id, "delete"),
            tag(
                "p",
                "Its offsets are lost. A consumer that joins later starts at auto.offset.reset.",
            ),
            typed_confirmation(page_data.id, "Delete the group"),
            class_="stack",
        )
    else:
        deletion = tag("p", "A group with members cannot be deleted. Stop its consumers first.")
    return (
        reset,
        tag("details", tag("summary", "Delete this group"), deletion, class_="panel dangerous"),
    )


def reset_page(page_data: ResetPlan, frame: Frame) -> Html:
    words = dict(_WAYS)[page_data.way]
    scope = page_data.topic or "all topics with committed offsets"
    back = link_to("groups", page_data.group)
    return frame.page(
        "Reset offsets: preview",
        tag(
            "p",
            "Nothing has been changed. Group ",
            tag("code", page_data.group, class_="name"),
            f" would go {words}",
            f" ({page_data.value})"
            if page_data.value and page_data.way in ("offset", "time", "shift")
            else "",
            f", in {scope}:",
        ),
        _plan(page_data),
        _execution(page_data, frame, back),
        place="groups",
        crumbs=[("Groups", "/groups"), (page_data.group, back)],
    )


def _plan(page_data: ResetPlan) -> Child:
    if not page_data.rows:
        return empty("There is nothing to reset: no partition has a committed offset.")
    hidden = len(page_data.rows) - _ROWS_SHOWN_MAX
    return (
        table(
            [
                ("Topic", ""),
                ("Partition", "num"),
                ("Current", "num"),
                ("New", "num"),
                ("Change", "num"),
                ("", "wide"),
            ],
            [
                (
                    tag("span", row.topic, class_="value"),
                    row.partition,
                    number(row.before),
                    number(row.after),
                    _change(row),
                    tag("span", row.note, class_="warn-text"),
                )
                for row in page_data.rows[:_ROWS_SHOWN_MAX]
            ],
            label="Preview of the reset",
        ),
        tag("p", f"And {hidden} more.", class_="quiet") if hidden > 0 else None,
    )


def _change(row: ResetRow) -> Child:
    if row.change is None:
        return badge("new")
    if row.change == 0:
        return tag("span", "none", class_="quiet")
    sign = "+" if row.change > 0 else "-"
    return (sign, number(abs(row.change)))


def _execution(page_data: ResetPlan, frame: Frame, back: str) -> Child:
    cancel = tag("a", "Cancel", href=back, class_="button")
    if not page_data.rows or frame.is_read_only:
        return tag("p", cancel, class_="actions")
    if not page_data.is_empty:
        text = "Brokers reject this while the group has members. Stop its consumers first."
        return (tag("p", text, class_="notice warn"), tag("p", cancel, class_="actions"))
    return frame.form(
        link_to("groups", page_data.group, "reset"),
        tag("input", type="hidden", name="plan", value=write_plan(page_data.rows)),
        tag("button", "Reset offsets", class_="danger"),
        cancel,
        class_="actions",
    )
