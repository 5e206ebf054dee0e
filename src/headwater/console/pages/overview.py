"""Pages: the overview, and one broker."""

from collections.abc import Sequence

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.charts import charts_section
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    brokers,
    counted,
    fact_list,
    name_link,
    number,
    page_tabs,
    section,
    size,
    table,
    tile,
)
from headwater.console.views.overview import BrokerDetail, BrokerRow, Overview


def overview_page(page_data: Overview, frame: Frame) -> Html:
    return frame.page(
        "Overview",
        _missing(page_data),
        _health(page_data),
        _tiles(page_data),
        charts_section("Activity", page_data.charts),
        section("Brokers", brokers_table(page_data.brokers), id="brokers"),
        _troubles(page_data),
        section("Cluster", _cluster(page_data)),
        place="",
        is_live=True,
        live_by_default=True,
    )


def _health(page_data: Overview) -> Html:
    if page_data.offline:
        what = counted(page_data.offline, "partition is offline", "partitions are offline")
        text = f"{what} and cannot be read or written."
        return tag("p", text, class_="notice bad", role="alert")
    if page_data.controller is None:
        return tag("p", "The cluster has no active controller.", class_="notice bad")
    if page_data.under_replicated:
        what = counted(page_data.under_replicated, "partition has", "partitions have")
        text = f"{what} replicas that are not in sync."
        return tag("p", text, class_="notice warn", role="status")
    return tag("p", "All partitions are online and in sync.", class_="notice good", role="status")


def _missing(page_data: Overview) -> Html | None:
    missing = [f"Broker {each.id}" for each in page_data.brokers if each.is_missing]
    if not missing:
        return None
    verb = "is" if len(missing) == 1 else "are"
    text = f"{', '.join(missing)} {verb} not running, but should hold replicas."
    return tag("p", text, class_="notice bad", role="alert")


def _tiles(page_data: Overview) -> Html:
    running = sum(not each.is_missing for each in page_data.brokers)
    return tag(
        "div",
        tile(
            number(running),
            "broker" if running == 1 else "brokers",
            href="#brokers",
        ),
        tile(number(page_data.topics), "topics", href=link_to("topics", query={"internal": "1"})),
        tile(number(page_data.partitions), "partitions"),
        tile(number(page_data.offline), "offline", kind="bad" if page_data.offline else ""),
        tile(
            number(page_data.under_replicated),
            "under-replicated",
            kind="warn" if page_data.under_replicated else "",
        ),
        tile(size(page_data.log_bytes), "in logs"),
        class_="tiles",
    )


def brokers_table(rows: Sequence[BrokerRow]) -> Html:
    return table(
        [
            ("Id", ""),
            ("Address", ""),
            ("Rack", "wide"),
            ("Leader of", "num"),
            ("Replicas", "num"),
            ("Logs", "num"),
        ],
        [
            (
                (
                    f"Broker {row.id}"
                    if row.is_missing
                    else tag("a", f"Broker {row.id}", href=link_to("brokers", row.id)),
                    " ",
                    badge("controller", "accent") if row.is_controller else None,
                    badge("missing", "bad", title=row.complaint) if row.is_missing else None,
                ),
                tag("code", row.address),
                row.rack or "-",
                number(row.leaders),
                number(row.replicas),
                tag("span", "unknown", title=row.complaint, class_="bad-text")
                if row.complaint
                else size(row.log_bytes),
            )
            for row in rows
        ],
        label="Brokers",
    )


def _troubles(page_data: Overview) -> Html | None:
    if not page_data.troubles:
        return None
    hidden = page_data.offline + page_data.under_replicated - len(page_data.troubles)
    return section(
        "Unhealthy partitions",
        table(
            [("Partition", ""), ("State", ""), ("Leader", ""), ("Replicas", ""), ("In sync", "")],
            [
                (
                    name_link(f"{each.topic}-{each.partition}", "topics", each.topic),
                    badge("offline", "bad")
                    if each.is_offline
                    else badge("under-replicated", "warn"),
                    "none" if each.leader is None else each.leader,
                    brokers(each.replicas),
                    brokers(each.isr),
                )
                for each in page_data.troubles
            ],
            label="Unhealthy partitions",
        ),
        tag("p", f"And {hidden} more.", class_="quiet") if hidden > 0 else None,
    )


def _cluster(page_data: Overview) -> Html:
    features: list[Child] = [
        tag(
            "li",
            tag("code", each.name),
            f" {each.finalized}" if each.finalized else " disabled",
            tag("span", f" (supported: {each.min_version} to {each.max_version})", class_="quiet"),
        )
        for each in page_data.features
    ]
    return fact_list(
        [
            ("Cluster id", tag("code", page_data.cluster_id)),
            (
                "Controller",
                "none" if page_data.controller is None else f"broker {page_data.controller}",
            ),
            ("Bootstrap servers", tag("code", page_data.bootstrap)),
            ("Console", f"Headwater {page_data.console_version}"),
            ("Features", tag("ul", features, class_="plain") if features else "unknown"),
        ]
    )


def broker_facts(page_data: BrokerDetail, current: str) -> Child:
    """What all pages of a broker begin with."""
    row = page_data.broker
    tabs = [
        ("Activity", link_to("brokers", row.id)),
        ("Configs", link_to("brokers", row.id, "configs")),
        ("Loggers", link_to("brokers", row.id, "loggers")),
    ]
    return (
        page_tabs(tabs, current, label="Pages of this broker"),
        tag("p", row.complaint, class_="notice warn") if row.complaint else None,
        fact_list(
            [
                ("Address", tag("code", row.address)),
                ("Rack", row.rack or "-"),
                ("Controller", "yes" if row.is_controller else "no"),
                ("Leader of", number(row.leaders)),
                ("Replicas", number(row.replicas)),
            ]
        ),
    )


def broker_page(page_data: BrokerDetail, frame: Frame) -> Html:
    return frame.page(
        f"Broker {page_data.broker.id}",
        broker_facts(page_data, "Activity"),
        charts_section("Activity", page_data.charts),
        section(
            "Log directories",
            table(
                [("Path", ""), ("Partitions", "num"), ("Logs", "num"), ("Disk free", "num")],
                [
                    (
                        tag("code", each.path, class_="name"),
                        number(each.partitions),
                        size(each.log_bytes),
                        _free(each.usable_bytes, each.total_bytes),
                    )
                    for each in page_data.disks
                ],
                label="Log directories",
            ),
        ),
        place="brokers",
        crumbs=[("Brokers", "/brokers")],
        is_live=True,
    )


def _free(usable: int | None, total: int | None) -> Child:
    if usable is None or total is None:
        return "-"
    return (
        size(usable),
        " of ",
        size(total),
        " ",
        tag("meter", min=0, max=max(total, 1), low=total // 10, value=usable, title="free"),
    )
