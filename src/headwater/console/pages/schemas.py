"""Pages: the registry's subjects, and one schema."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import (
    badge,
    empty,
    fact_list,
    name_link,
    pager,
    search_form,
    section,
    table,
)
from headwater.console.views.schemas import SchemaDetail, SubjectList


def subjects_page(page_data: SubjectList, frame: Frame) -> Html:
    return frame.page(
        "Schemas",
        search_form("/schemas", page_data.search, "Search subjects"),
        _list(page_data, frame),
        fact_list(
            [
                ("Registry", tag("code", page_data.url)),
                ("Compatibility", page_data.compatibility or "-"),
            ]
        ),
        place="schemas",
    )


def _list(page_data: SubjectList, frame: Frame) -> Child:
    if not page_data.subjects.rows:
        if page_data.search:
            return empty(f"No subject matches '{page_data.search}'.")
        return empty("The registry has no schemas yet.")
    return (
        table(
            [("Subject", "")],
            [(name_link(each, "schemas", each),) for each in page_data.subjects.rows],
            label="Subjects",
        ),
        pager(page_data.subjects, ["schemas"], frame.query),
    )


def schema_page(page_data: SchemaDetail, frame: Frame) -> Html:
    versions = [
        tag(
            "a",
            f"Version {each}",
            href=link_to("schemas", page_data.subject, query={"version": each}),
            aria_current="page" if each == page_data.version else None,
        )
        for each in page_data.versions
    ]
    references = [
        tag(
            "li",
            tag("code", each.name),
            " is ",
            name_link(f"{each.subject} version {each.version}", "schemas", each.subject),
        )
        for each in page_data.references
    ]
    return frame.page(
        page_data.subject,
        tag("nav", versions, class_="tabs", aria_label="Versions"),
        fact_list(
            [
                ("Id", page_data.id),
                ("Type", badge(page_data.type)),
                ("Compatibility", page_data.compatibility or "-"),
            ]
        ),
        tag("pre", page_data.schema, tabindex="0", class_="json"),
        section("References", tag("ul", references)) if references else None,
        place="schemas",
        crumbs=[("Schemas", "/schemas")],
    )
