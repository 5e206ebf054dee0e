"""Shared page elements: tables, pagers, numbers, badges, forms."""

from collections.abc import Mapping, Sequence
from typing import Any

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.times import time_text
from headwater.console.views.paging import Page

Column = tuple[str, str]
"""A heading and a class: num for numbers, wide for columns that small screens omit."""


def table(columns: Sequence[Column], rows: Sequence[Sequence[Child]], *, label: str) -> Html:
    # A heading without text would confuse screen readers: a column of buttons has none.
    head = tag(
        "tr",
        [
            tag("th", name, class_=kind or None, scope="col")
            if name
            else tag("td", class_=kind or None)
            for name, kind in columns
        ],
    )
    body = [
        tag(
            "tr",
            [
                tag("td", cell, class_=kind or None)
                for (_, kind), cell in zip(columns, row, strict=True)
            ],
        )
        for row in rows
    ]
    inner = tag("table", tag("thead", head), tag("tbody", body), aria_label=label)
    # Focusable, so that a wide table can be scrolled without a mouse.
    return tag("div", inner, class_="scroll", tabindex="0", role="region", aria_label=label)


def section(title: str, *children: Child, id: str | None = None) -> Html:  # noqa: A002
    return tag("section", tag("h2", title), children, id=id)


def empty(text: str, *more: Child) -> Html:
    return tag("p", text, more, class_="empty")


def number(value: int | None) -> Html:
    """With a thousands separator."""
    if value is None:
        return tag("span", "-", class_="quiet", title="unknown")
    return tag("span", number_text(value))


def number_text(value: int) -> str:
    return f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def counted(value: int, one: str, many: str | None = None) -> str:
    """`1 broker`, `2 brokers`."""
    return f"{value} {one}" if value == 1 else f"{number_text(value)} {many or f'{one}s'}"


def size(value: float | None) -> Html:
    if value is None:
        return tag("span", "-", class_="quiet", title="unknown")
    return tag("span", size_text(value), title=f"{value:,.0f} bytes")


def size_text(value: float) -> str:
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def moment(timestamp_ms: int | None) -> Html:
    if timestamp_ms is None:
        return tag("span", "-", class_="quiet", title="no timestamp")
    text = time_text(timestamp_ms)
    # The script adds the local time.
    machine = f"{text.replace(' ', 'T')}Z" if " " in text else None
    return tag("time", text, datetime=machine, title="UTC")


def badge(text: str, kind: str = "", *, title: str | None = None) -> Html:
    return tag("span", text, class_=f"badge {kind}".strip(), title=title)


def name_link(text: str, *parts: str | int) -> Html:
    """A link whose text may be long."""
    return tag("a", text, href=link_to(*parts), class_="name")


def brokers(ids: Sequence[int]) -> Child:
    return ", ".join(map(str, ids)) or "none"


def fact_list(page_data: Sequence[tuple[str, Child]]) -> Html:
    return tag(
        "dl",
        [tag("div", tag("dt", name), tag("dd", value)) for name, value in page_data],
        class_="facts",
    )


def tile(value: Child, name: str, *, kind: str = "", href: str | None = None) -> Html:
    inner = (tag("strong", value), tag("span", name))
    if href is not None:
        return tag("a", inner, href=href, class_=f"tile {kind}".strip())
    return tag("div", inner, class_=f"tile {kind}".strip())


def search_form(
    action: str, value: str, label: str, *more: Child, hidden: Mapping[str, str] | None = None
) -> Html:
    return tag(
        "form",
        tag(
            "input",
            type="search",
            name="search",
            value=value,
            placeholder=label,
            aria_label=label,
            id="search",
            autocomplete="off",
            spellcheck="false",
        ),
        [tag("input", type="hidden", name=key, value=each) for key, each in (hidden or {}).items()],
        more,
        tag("button", "Search"),
        method="get",
        action=action,
        class_="row",
        role="search",
    )


def pager(page: Page[Any], path: Sequence[str | int], query: Mapping[str, str]) -> Html | None:
    """Row numbers, and links to the previous and next page."""
    if page.total <= page.size and page.page == 1:
        return None
    kept = {key: value for key, value in query.items() if key not in ("page", "done")}

    def step(text: str, number: int, rel: str) -> Html:
        if not 1 <= number <= page.last:
            return tag("span", text, class_="button off", aria_disabled="true")
        href = link_to(*path, query={**kept, "page": number})
        return tag("a", text, href=href, rel=rel, class_="button")

    return tag(
        "nav",
        step("← Previous", page.page - 1, "prev"),
        tag(
            "span",
            f"{number_text(page.first_row)} to {number_text(page.last_row)} "
            f"of {number_text(page.total)}",
        ),
        step("Next →", page.page + 1, "next"),
        class_="pager",
        aria_label="Pages of this list",
    )


def select(
    name: str, options: Sequence[tuple[str, str]], chosen: str, *, label: str | None = None
) -> Html:
    choices = [
        tag("option", text, value=value, selected=value == chosen) for value, text in options
    ]
    return tag("select", choices, name=name, aria_label=label)


def page_tabs(pages: Sequence[tuple[str, str]], current: str, *, label: str) -> Html:
    """Links to pages that belong together."""
    return tag(
        "nav",
        [
            tag("a", name, href=where, aria_current="page" if name == current else None)
            for name, where in pages
        ],
        class_="tabs",
        aria_label=label,
    )


def labelled(text: str, *control: Child, hint: str | None = None) -> Html:
    note = tag("small", hint) if hint else None
    return tag("label", tag("span", text), control, note, class_="field")


def text_input(
    name: str,
    value: str = "",
    *,
    type: str = "text",  # noqa: A002
    placeholder: str | None = None,
    required: bool = False,
    label: str | None = None,
) -> Html:
    return tag(
        "input",
        type=type,
        name=name,
        value=value or None,
        placeholder=placeholder,
        required=required,
        aria_label=label,
        autocomplete="off",
        spellcheck="false",
    )


def typed_confirmation(name: str, button: str) -> Html:
    """A field for the name of what is deleted; the console requires it."""
    return tag(
        "div",
        tag(
            "label",
            "Type ",
            tag("code", name, class_="name"),
            " to confirm",
            tag(
                "input",
                type="text",
                name="confirm",
                required=True,
                autocomplete="off",
                spellcheck="false",
                data_confirms=name,
            ),
        ),
        tag("button", button, class_="danger"),
        class_="confirm",
    )
