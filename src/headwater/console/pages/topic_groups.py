"""Page: the groups that consume a topic."""

from headwater.console.html import Child, Html, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.groups import state_badge
from headwater.console.pages.parts import counted, empty, name_link, number, table
from headwater.console.pages.topics import tabs
from headwater.console.views.topic_groups import TopicGroups


def topic_groups_page(page_data: TopicGroups, frame: Frame) -> Html:
    return frame.page(
        page_data.topic,
        tabs(page_data.topic, "Groups"),
        _left_out(page_data),
        _readers(page_data),
        place="topics",
        crumbs=[("Topics", "/topics")],
        is_live=True,
    )


def _left_out(page_data: TopicGroups) -> Child:
    notes = []
    if page_data.asked < page_data.all_groups:
        notes.append(
            f"Only the first {page_data.asked} of {page_data.all_groups} groups were checked."
        )
    if page_data.untold:
        notes.append(f"{counted(page_data.untold, 'group')} could not be described.")
    return [tag("p", each, class_="notice warn", role="status") for each in notes]


def _readers(page_data: TopicGroups) -> Html:
    if not page_data.readers:
        return empty("No group consumes this topic or has offsets in it.")
    return table(
        [
            ("Group", ""),
            ("State", ""),
            ("Members on this topic", "num"),
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
            for each in page_data.readers
        ],
        label="Groups that consume this topic",
    )
