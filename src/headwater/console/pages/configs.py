"""A table of configs or loggers with search, descriptions and a form."""

from collections.abc import Sequence

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import empty, search_form, table
from headwater.console.views.configs import ConfigRow


def configs_list(
    rows: Sequence[ConfigRow], frame: Frame, path: Sequence[str | int], *, what: str = "configs"
) -> Child:
    """Rows that match the page's search; a change is posted to the same path."""
    search = frame.query.get("search", "").strip()
    wanted = frame.typed("name") or frame.query.get("edit", "")
    edited = "" if frame.is_read_only else wanted
    found = [each for each in rows if each.name == edited or _matches(each, search)]
    form = search_form(link_to(*path), search, f"Search {what} and their descriptions")
    if not found:
        return form, empty(f"None of the {what} match '{search}'." if search else f"No {what}.")
    return (
        form,
        table(
            [("Name", ""), ("Value", ""), ("Source", "wide"), ("", "")],
            [_row(row, frame, path, search, is_edited=row.name == edited) for row in found],
            label=what.capitalize(),
        ),
    )


def config_value(row: ConfigRow) -> Html:
    if row.is_sensitive:
        return tag("span", "hidden", class_="quiet")
    if row.value in (None, ""):
        return tag("span", "not set" if row.value is None else "empty", class_="quiet")
    return tag("code", row.value, class_="value")


def _matches(row: ConfigRow, search: str) -> bool:
    wanted = search.lower()
    return wanted in row.name.lower() or wanted in (row.documentation or "").lower()


def _row(
    row: ConfigRow, frame: Frame, path: Sequence[str | int], search: str, *, is_edited: bool
) -> tuple[Child, ...]:
    about = tag("small", row.documentation, class_="about") if row.documentation else None
    named = (tag("code", row.name, id=row.name), about)
    source = tag("span", row.source, class_="quiet" if row.is_default else None)
    if is_edited:
        return (named, _edit(row, frame, path), source, None)
    where = link_to(*path, query={"edit": row.name, "search": search})
    change = tag("a", "Change", href=f"{where}#{row.name}", aria_label=f"Change {row.name}")
    may_change = not frame.is_read_only and not row.is_read_only
    return (named, config_value(row), source, change if may_change else None)


def _edit(row: ConfigRow, frame: Frame, path: Sequence[str | int]) -> Html:
    action = link_to(*path)
    back = tag("button", "Reset to default", name="reset", value="1", formnovalidate=True)
    return frame.form(
        action,
        tag("input", type="hidden", name="name", value=row.name),
        tag(
            "input",
            type="text",
            name="value",
            value=frame.typed("value") or row.value or "",
            aria_label=f"Value of {row.name}",
            autocomplete="off",
            spellcheck="false",
            autofocus=True,
        ),
        tag("button", "Set", class_="primary"),
        back if row.is_own else None,
        tag("a", "Cancel", href=action),
        class_="row",
    )
