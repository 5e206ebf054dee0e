"""The registry's subjects, and one schema."""

from headwater.web.console.html import Child, Html, link_to, tag
from headwater.web.console.pages.frame import Frame
from headwater.web.console.pages.parts import (
    badge,
    empty,
    fact_list,
    name_link,
    pager,
    search_form,
    section,
    table,
)
from headwater.web.console.schemas import SchemaDetail, SubjectList


def subjects_page(facts: SubjectList, frame: Frame) -> Html:
    return frame.page(
        "Schemas",
        search_form("/schemas", facts.search, "Search subjects"),
        _list(facts, frame),
        fact_list(
            [
                ("Registry", tag("code", facts.url)),
                ("Compatibility", facts.compatibility or "-"),
            ]
        ),
        place="schemas",
    )


def _list(facts: SubjectList, frame: Frame) -> Child:
    if not facts.subjects.rows:
        if facts.search:
            return empty(f"No subject has '{facts.search}' in its name.")
        return empty("The registry has no schemas yet.")
    return (
        table(
            [("Subject", "")],
            [(name_link(each, "schemas", each),) for each in facts.subjects.rows],
            label="Subjects",
        ),
        pager(facts.subjects, ["schemas"], frame.query),
    )


def schema_page(facts: SchemaDetail, frame: Frame) -> Html:
    versions = [
        tag(
            "a",
            f"Version {each}",
            href=link_to("schemas", facts.subject, query={"version": each}),
            aria_current="page" if each == facts.version else None,
        )
        for each in facts.versions
    ]
    references = [
        tag(
            "li",
            tag("code", each.name),
            " is ",
            name_link(f"{each.subject} version {each.version}", "schemas", each.subject),
        )
        for each in facts.references
    ]
    return frame.page(
        facts.subject,
        tag("nav", versions, class_="tabs", aria_label="Versions"),
        fact_list(
            [
                ("Id", facts.id),
                ("Type", badge(facts.type)),
                ("Compatibility", facts.compatibility or "-"),
            ]
        ),
        tag("pre", facts.schema, tabindex="0", class_="json"),
        section("Uses", tag("ul", references)) if references else None,
        place="schemas",
        crumbs=[("Schemas", "/schemas")],
    )
