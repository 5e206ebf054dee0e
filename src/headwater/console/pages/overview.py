"""Pages: the overview, and one broker."""

from collections.abc import Sequence

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    brokers,
    counted,
    empty,
    fact_list,
    name_link,
    number,
    section,
    size,
    size_text,
    table,
    tile,
)
from headwater.console.views.configs import ConfigRow
from headwater.console.views.overview import BrokerDetail, BrokerRow, Overview
from headwater.console.views.throughput import RatePoint, Rates

_CHART_WIDTH = 300
_CHART_HEIGHT = 48


def overview_page(page_data: Overview, frame: Frame) -> Html:
    return frame.page(
        "Overview",
        _health(page_data),
        _tiles(page_data),
        _throughput(page_data.throughput),
        section("Brokers", _brokers(page_data.brokers), id="brokers"),
        _troubles(page_data),
        section("Cluster", _cluster(page_data)),
        place="",
        is_live=True,
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


def _tiles(page_data: Overview) -> Html:
    return tag(
        "div",
        tile(
            number(len(page_data.brokers)),
            "broker" if len(page_data.brokers) == 1 else "brokers",
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


def _throughput(rates: Rates | None) -> Html:
    if rates is None:
        hint = (
            "Start the console with ",
            tag("code", "--metrics HOST:PORT"),
            ", once per broker, to see throughput here.",
        )
        return section("Throughput", empty("", hint))
    problems = [
        tag("p", f"No metrics of {name}: {why}", class_="notice warn")
        for name, why in rates.complaints.items()
    ]
    if not rates.points:
        return section("Throughput", problems, empty("Measuring. Reload in a few seconds."))
    last = rates.points[-1]
    charts = (
        _chart("in", f"{size_text(last.bytes_in)}/s", [each.bytes_in for each in rates.points]),
        _chart("out", f"{size_text(last.bytes_out)}/s", [each.bytes_out for each in rates.points]),
        _chart(
            "records in", f"{last.records_in:,.0f}/s", [each.records_in for each in rates.points]
        ),
    )
    span_s = _span_s(rates.points)
    of = counted(len(rates.addresses), "broker")
    note = tag("p", f"The last {span_s} seconds, from {of}.", class_="quiet")
    return section("Throughput", problems, tag("div", charts, class_="tiles charts"), note)


def _span_s(points: Sequence[RatePoint]) -> int:
    return max((points[-1].at_ms - points[0].at_ms) // 1000, 5)


def _chart(name: str, now: str, values: Sequence[float]) -> Html:
    top = max(*values, 1.0) if len(values) > 1 else max(values[0], 1.0)
    step = _CHART_WIDTH / max(len(values) - 1, 1)
    heights = [_CHART_HEIGHT - 2 - each / top * (_CHART_HEIGHT - 6) for each in values]
    dots = [f"{index * step:.1f},{height:.1f}" for index, height in enumerate(heights)]
    if len(dots) == 1:
        dots.append(f"{_CHART_WIDTH},{heights[0]:.1f}")
    area = f"0,{_CHART_HEIGHT} {' '.join(dots)} {_CHART_WIDTH},{_CHART_HEIGHT}"
    picture = tag(
        "svg",
        tag("polygon", points=area),
        tag("polyline", points=" ".join(dots)),
        viewBox=f"0 0 {_CHART_WIDTH} {_CHART_HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"{name}: {now} now",
    )
    return tag("div", tag("strong", now), tag("span", name), picture, class_="tile chart")


def _brokers(rows: Sequence[BrokerRow]) -> Html:
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
                    tag("a", f"Broker {row.id}", href=link_to("brokers", row.id)),
                    " ",
                    badge("controller", "accent") if row.is_controller else None,
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


def broker_page(page_data: BrokerDetail, frame: Frame) -> Html:
    row = page_data.broker
    return frame.page(
        f"Broker {row.id}",
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
        section("Configs", configs_table(page_data.configs)),
        place="",
        crumbs=[("Overview", "/")],
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


def configs_table(rows: Sequence[ConfigRow]) -> Html:
    return table(
        [("Name", ""), ("Value", ""), ("Source", "wide")],
        [
            (
                tag("code", row.name, title=row.documentation),
                config_value(row),
                tag("span", row.source, class_="quiet" if row.is_default else None),
            )
            for row in rows
        ],
        label="Configs",
    )


def config_value(row: ConfigRow) -> Html:
    if row.is_sensitive:
        return tag("span", "hidden", class_="quiet")
    if row.value in (None, ""):
        return tag("span", "not set" if row.value is None else "empty", class_="quiet")
    return tag("code", row.value, class_="value")
