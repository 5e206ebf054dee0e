"""The groups that read a topic."""

from headwater.web.console.html import Child, Html, tag
from headwater.web.console.pages.frame import Frame
from headwater.web.console.pages.groups import state_badge
from headwater.web.console.pages.parts import counted, empty, name_link, number, table
from headwater.web.console.pages.topics import tabs
from headwater.web.console.topic_groups import TopicGroups


def topic_groups_page(facts: TopicGroups, frame: Frame) -> Html:
    return frame.page(
        facts.topic,
        tabs(facts.topic, "Groups"),
        _left_out(facts),
        _readers(facts),
        place="topics",
        crumbs=[("Topics", "/topics")],
        is_live=True,
    )


def _left_out(facts: TopicGroups) -> Child:
    notes = []
    if facts.asked < facts.all_groups:
        notes.append(f"Only the first {facts.asked} of {facts.all_groups} groups were asked.")
    if facts.untold:
        notes.append(f"{counted(facts.untold, 'group')} could not be asked.")
    return [tag("p", each, class_="notice warn", role="status") for each in notes]


def _readers(facts: TopicGroups) -> Html:
    if not facts.readers:
        return empty("No group reads this topic, or has offsets in it.")
    return table(
        [
            ("Group", ""),
            ("State", ""),
            ("Members here", "num"),
            ("Partitions", "num wide"),
            ("Lag", "num"),
        ],
        [
            (
                name_link(each.id or "(no name)", "groups", each.id),
                state_badge(each.state),
                number(each.members),
                number(each.partitions),
                number(each.lag),
            )
            for each in facts.readers
        ],
        label="Groups that read this topic",
    )
