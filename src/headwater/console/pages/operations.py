"""Pages: brokers, reassignments and the metadata quorum."""

from headwater.console.html import Child, Html, tag
from headwater.console.pages.charts import charts_section
from headwater.console.pages.configs import configs_list
from headwater.console.pages.frame import Frame
from headwater.console.pages.overview import broker_facts, brokers_table
from headwater.console.pages.parts import (
    badge,
    brokers,
    empty,
    fact_list,
    moment,
    name_link,
    number,
    page_tabs,
    pager,
    section,
    size,
    table,
)
from headwater.console.views.operations import (
    QuorumReplicaRow,
    QuorumView,
    ReassignmentList,
    ReassignmentRow,
)
from headwater.console.views.overview import BrokerDetail, BrokerList

TABS = (("Brokers", "/brokers"), ("Reassignments", "/reassignments"), ("Quorum", "/quorum"))


def brokers_page(page_data: BrokerList, frame: Frame) -> Html:
    return frame.page(
        "Brokers",
        page_tabs(TABS, "Brokers", label="Pages on brokers"),
        brokers_table(page_data.brokers),
        charts_section("Activity", page_data.charts),
        place="brokers",
        is_live=True,
    )


def broker_configs_page(page_data: BrokerDetail, frame: Frame) -> Html:
    return _broker_page(
        page_data,
        frame,
        "Configs",
        configs_list(page_data.configs, frame, ["brokers", page_data.broker.id, "configs"]),
    )


def broker_loggers_page(page_data: BrokerDetail, frame: Frame) -> Html:
    path = ("brokers", page_data.broker.id, "loggers")
    return _broker_page(
        page_data,
        frame,
        "Loggers",
        tag("p", "A change lasts until the broker restarts.", class_="quiet"),
        configs_list(page_data.configs, frame, path, what="loggers"),
    )


def _broker_page(page_data: BrokerDetail, frame: Frame, title: str, *children: Child) -> Html:
    return frame.page(
        f"Broker {page_data.broker.id}",
        broker_facts(page_data, title),
        section(title, children),
        place="brokers",
        crumbs=[("Brokers", "/brokers")],
    )


def reassignments_page(page_data: ReassignmentList, frame: Frame) -> Html:
    rows = page_data.reassignments.rows
    if page_data.problem is not None:
        shown: Child = empty(f"The cluster does not list them: {page_data.problem}")
    elif not rows:
        shown = empty("No partition is being reassigned.")
    else:
        shown = (
            table(
                [
                    ("Partition", ""),
                    ("Replicas", ""),
                    ("Adding", ""),
                    ("Removing", ""),
                    ("Copied", ""),
                    ("", ""),
                ],
                [_reassignment(each, frame) for each in rows],
                label="Reassignments",
            ),
            pager(page_data.reassignments, ["reassignments"], frame.query),
        )
    return frame.page(
        "Brokers",
        page_tabs(TABS, "Reassignments", label="Pages on brokers"),
        section("Reassignments", shown),
        place="brokers",
        is_live=True,
    )


def _reassignment(row: ReassignmentRow, frame: Frame) -> tuple[Child, ...]:
    place = f"{row.topic}-{row.partition}"
    cancel = frame.form(
        "/reassignments/cancel",
        tag("input", type="hidden", name="topic", value=row.topic),
        tag("input", type="hidden", name="partition", value=row.partition),
        tag("button", "Cancel", class_="danger", aria_label=f"Cancel the move of {place}"),
    )
    return (
        name_link(place, "topics", row.topic),
        brokers(row.replicas),
        brokers(row.adding),
        brokers(row.removing),
        _progress(row),
        None if frame.is_read_only else cancel,
    )


def _progress(row: ReassignmentRow) -> Child:
    if row.copied_bytes is None or row.wanted_bytes is None:
        return "-"
    percent = 100 if not row.wanted_bytes else row.copied_bytes * 100 // row.wanted_bytes
    return (
        tag("progress", max=100, value=percent, aria_label=f"{percent} percent copied"),
        f" {percent} %, ",
        size(row.copied_bytes),
        " of ",
        size(row.wanted_bytes),
    )


def quorum_page(page_data: QuorumView, frame: Frame) -> Html:
    return frame.page(
        "Brokers",
        page_tabs(TABS, "Quorum", label="Pages on brokers"),
        _quorum(page_data),
        place="brokers",
        is_live=True,
    )


def _quorum(page_data: QuorumView) -> Child:
    if page_data.problem is not None:
        return empty(f"The cluster does not describe its quorum: {page_data.problem}")
    controller = "none" if page_data.controller is None else f"broker {page_data.controller}"
    if not page_data.is_kraft:
        return (
            fact_list([("Active controller", controller)]),
            empty(
                "This cluster has no KRaft quorum: its metadata is in ZooKeeper, or in the data "
                "directory of a single broker."
            ),
        )
    return (
        fact_list(
            [
                ("Leader", "none" if page_data.leader is None else page_data.leader),
                ("Epoch", number(page_data.epoch)),
                ("High watermark", number(page_data.high_watermark)),
            ]
        ),
        table(
            [
                ("Node", ""),
                ("Role", ""),
                ("Log end offset", "num"),
                ("Lag", "num"),
                ("Last fetch", "wide"),
                ("Last caught up", "wide"),
                ("Listeners", "wide"),
            ],
            [_replica(each) for each in page_data.replicas],
            label="Replicas of the metadata log",
        ),
    )


def _replica(row: QuorumReplicaRow) -> tuple[Child, ...]:
    kind = {"leader": "accent", "voter": "good"}.get(row.role, "")
    return (
        row.id,
        badge(row.role, kind),
        number(row.log_end_offset),
        number(row.lag),
        moment(row.last_fetch_ms),
        moment(row.last_caught_up_ms),
        tag("code", ", ".join(row.endpoints)) if row.endpoints else "-",
    )
