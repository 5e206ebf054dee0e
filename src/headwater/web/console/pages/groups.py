"""The list of groups, one group, and the dry run of a reset."""

from headwater.web.console.group_resets import ResetPlan, ResetRow, write_plan
from headwater.web.console.groups import GroupDetail, GroupList, GroupRow, LagRow
from headwater.web.console.html import Child, Html, link_to, tag
from headwater.web.console.pages.frame import Frame
from headwater.web.console.pages.parts import (
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

_WAYS = [
    ("earliest", "to the beginning"),
    ("latest", "to the end"),
    ("offset", "to an offset"),
    ("time", "to a time"),
    ("shift", "by so many records"),
]
_ROWS_SHOWN_MAX = 1_000


def groups_page(facts: GroupList, frame: Frame) -> Html:
    states = [("", "in any state")] + [(each, each) for each in facts.states]
    return frame.page(
        "Groups",
        search_form(
            "/groups",
            facts.search,
            "Search groups",
            select("state", states, facts.state, label="State"),
            select(
                "sort",
                [("name", "by name"), ("lag", "by lag")],
                facts.sort,
                label="Order",
            ),
        ),
        _list(facts, frame),
        place="groups",
        is_live=True,
    )


def _list(facts: GroupList, frame: Frame) -> Child:
    if not facts.groups.rows:
        if facts.search or facts.state:
            return empty("No group is like that.")
        return empty("There are no groups. One appears when a consumer joins it.")
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
            [_row(row) for row in facts.groups.rows],
            label="Groups",
        ),
        pager(facts.groups, ["groups"], frame.query),
    )


def _row(row: GroupRow) -> tuple[Child, ...]:
    return (
        name_link(row.id or "(no name)", "groups", row.id),
        (state_badge(row.state), " ", badge("not told", "bad") if row.complaint else None),
        row.type,
        number(row.members),
        number(row.topics),
        number(row.lag),
    )


def state_badge(state: str) -> Html:
    kinds = {"stable": "good", "empty": "", "dead": "bad"}
    return badge(state, kinds.get(state.lower(), "warn"))


def group_page(facts: GroupDetail, frame: Frame) -> Html:
    return frame.page(
        facts.id,
        fact_list(
            [
                ("State", state_badge(facts.state)),
                ("Type", facts.type),
                ("Assignor", facts.assignor or "-"),
                ("Members", number(facts.all_members)),
                ("Lag in all", number(facts.lag)),
            ]
        ),
        section("Offsets", _lags(facts, frame)),
        section("Members", _members(facts)),
        None if frame.is_read_only else _changes(facts, frame),
        place="groups",
        crumbs=[("Groups", "/groups")],
        is_live=True,
    )


def _lags(facts: GroupDetail, frame: Frame) -> Child:
    if not facts.lags.rows:
        return empty("The group has committed no offsets, and reads nothing.")
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
                    (_trouble(row), number(row.lag)),
                    tag("span", row.client or "-", class_="value"),
                )
                for row in facts.lags.rows
            ],
            label="Offsets",
        ),
        pager(facts.lags, ["groups", facts.id], frame.query),
    )


def _trouble(row: LagRow) -> Child:
    """What a lag does not say: that the offset is nowhere in the log."""
    if row.is_beyond_the_end:
        title = "The offset is beyond the end: the topic was made anew, or lost records."
        return (badge("beyond the end", "bad", title=title), " ")
    if row.has_missed_records:
        title = f"The log begins at {row.start}: records were deleted before they were read."
        return (badge("records missed", "warn", title=title), " ")
    return None


def _members(facts: GroupDetail) -> Child:
    if not facts.members:
        return empty("Nobody is in the group right now.")
    hidden = facts.all_members - len(facts.members)
    return (
        table(
            [("Client", ""), ("Host", ""), ("Member", "wide"), ("Reads", "")],
            [
                (
                    tag("span", row.client or "-", class_="value"),
                    tag("code", row.host, class_="value"),
                    tag("code", row.instance or row.id, class_="value"),
                    _reads(row.partitions),
                )
                for row in facts.members
            ],
            label="Members",
        ),
        tag("p", f"And {hidden} more.", class_="quiet") if hidden else None,
    )


def _reads(partitions: tuple[str, ...]) -> Child:
    if not partitions:
        return tag("span", "nothing", class_="quiet")
    if len(partitions) <= 3:
        return tag("span", ", ".join(partitions), class_="value")
    return tag(
        "details",
        tag("summary", f"{len(partitions)} partitions"),
        tag("span", ", ".join(partitions[:500]), class_="value"),
    )


def _changes(facts: GroupDetail, frame: Frame) -> Child:
    topics = [("", "all topics it has offsets in")] + [(each, each) for each in facts.topics]
    reset = tag(
        "details",
        tag("summary", "Reset offsets"),
        tag(
            "form",
            tag("p", "First you see what would change. Nothing is done before you say so."),
            labelled("Topic", select("topic", topics, "")),
            labelled("Go", select("to", _WAYS, "earliest")),
            labelled(
                "Value",
                text_input("value"),
                hint="an offset, a time such as 2026-01-31T12:00 (UTC), or a number such as -100",
            ),
            tag("button", "Show what would change", class_="primary"),
            method="get",
            action=link_to("groups", facts.id, "reset"),
            class_="stack",
        ),
        class_="panel",
    )
    if facts.is_empty:
        gone: Child = frame.form(
            link_to("groups", facts.id, "delete"),
            tag("p", "Its offsets are lost. A consumer that joins later begins anew."),
            typed_confirmation(facts.id, "Delete the group"),
            class_="stack",
        )
    else:
        gone = tag("p", "A group with members cannot be deleted. Stop its consumers first.")
    return (
        reset,
        tag("details", tag("summary", "Delete this group"), gone, class_="panel dangerous"),
    )


def reset_page(facts: ResetPlan, frame: Frame) -> Html:
    words = dict(_WAYS)[facts.way]
    scope = facts.topic or "all topics it has offsets in"
    back = link_to("groups", facts.group)
    return frame.page(
        "Reset offsets: a dry run",
        tag(
            "p",
            "Nothing has been changed. Group ",
            tag("code", facts.group, class_="name"),
            f" would go {words}",
            f" ({facts.value})" if facts.value and facts.way in ("offset", "time", "shift") else "",
            f", in {scope}:",
        ),
        _plan(facts),
        _execution(facts, frame, back),
        place="groups",
        crumbs=[("Groups", "/groups"), (facts.group, back)],
    )


def _plan(facts: ResetPlan) -> Child:
    if not facts.rows:
        return empty("There is nothing to reset: no partition has an offset to begin from.")
    hidden = len(facts.rows) - _ROWS_SHOWN_MAX
    return (
        table(
            [
                ("Topic", ""),
                ("Partition", "num"),
                ("Now", "num"),
                ("Then", "num"),
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
                for row in facts.rows[:_ROWS_SHOWN_MAX]
            ],
            label="What would change",
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


def _execution(facts: ResetPlan, frame: Frame, back: str) -> Child:
    leave = tag("a", "Leave it as it is", href=back, class_="button")
    if not facts.rows or frame.is_read_only:
        return tag("p", leave, class_="actions")
    if not facts.is_empty:
        text = "The group has members, and so brokers refuse this. Stop its consumers first."
        return (tag("p", text, class_="notice warn"), tag("p", leave, class_="actions"))
    return frame.form(
        link_to("groups", facts.group, "reset"),
        tag("input", type="hidden", name="plan", value=write_plan(facts.rows)),
        tag("button", "Do it", class_="danger"),
        leave,
        class_="actions",
    )
