"""Pages: the registry's subjects, and one schema."""

from headwater.console.html import Child, Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.json_tree import json_tree
from headwater.console.pages.parts import (
    badge,
    empty,
    fact_list,
    labelled,
    name_link,
    pager,
    search_form,
    section,
    select,
    table,
    text_input,
)
from headwater.console.views.schemas import LEVELS, SCHEMA_TYPES, SchemaDetail, SubjectList


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
        None if frame.is_read_only else _new_subject(frame),
        place="schemas",
    )


def _new_subject(frame: Frame) -> Html:
    return tag(
        "details",
        tag("summary", "Register a schema"),
        frame.form(
            "/schemas",
            labelled(
                "Subject",
                text_input("subject", frame.typed("subject"), required=True),
                hint="TOPIC-value or TOPIC-key for the schemas of a topic",
            ),
            _schema_fields(frame.typed("schema"), frame.typed("type")),
            class_="stack",
        ),
        class_="panel",
        open=bool(frame.given),
        data_open=bool(frame.given),
    )


def _schema_fields(schema: str, kind: str) -> Child:
    return (
        labelled("Type", select("type", [(each, each) for each in SCHEMA_TYPES], kind)),
        labelled("Schema", tag("textarea", schema, name="schema", rows=14, spellcheck="false")),
        tag(
            "div",
            tag("button", "Check compatibility", name="check", value="1"),
            tag("button", "Register", class_="primary"),
            class_="row",
        ),
    )


def _edit(page_data: SchemaDetail, frame: Frame) -> Child:
    schema = frame.typed("schema") or page_data.schema
    new_version = tag(
        "details",
        tag("summary", "Edit and register a new version"),
        frame.form(
            link_to("schemas", page_data.subject),
            _schema_fields(schema, frame.typed("type") or page_data.type),
            class_="stack",
        ),
        class_="panel",
        open=bool(frame.given),
        data_open=bool(frame.given),
    )
    levels = [(each, each) for each in LEVELS]
    compatibility = tag(
        "details",
        tag("summary", "Change the compatibility level"),
        frame.form(
            link_to("schemas", page_data.subject, "compatibility"),
            labelled("Level", select("level", levels, page_data.compatibility or LEVELS[0])),
            tag("button", "Set", class_="primary"),
            class_="stack",
        ),
        class_="panel",
    )
    return (new_version, compatibility)


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
        tag("pre", page_data.schema, tabindex="0")
        if page_data.type == "PROTOBUF"
        else json_tree(page_data.schema),
        section("References", tag("ul", references)) if references else None,
        None if frame.is_read_only else _edit(page_data, frame),
        place="schemas",
        crumbs=[("Schemas", "/schemas")],
    )
