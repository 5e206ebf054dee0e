"""Form to produce a record."""

from headwater.console.actions import PRODUCE_FORMATS, REGISTERED_FORMATS
from headwater.console.html import Html, link_to, tag
from headwater.console.pages.frame import Frame
from headwater.console.pages.parts import labelled, select, text_input


def produce_form(topic: str, frame: Frame) -> Html:
    formats = [
        (each, each)
        for each in PRODUCE_FORMATS
        if each not in REGISTERED_FORMATS or frame.has_registry
    ]
    keys = [each for each in formats if each[0] != "null"]
    key_format = frame.typed("key_format") or "text"
    value_format = frame.typed("value_format") or "text"
    return tag(
        "details",
        tag("summary", "Produce a record"),
        frame.form(
            link_to("topics", topic, "records"),
            labelled(
                "Key",
                text_input("key", frame.typed("key")),
                select("key_format", keys, key_format, label="Key format"),
                hint="empty: null",
            ),
            labelled(
                "Value",
                tag("textarea", frame.typed("value"), name="value", rows=5, spellcheck="false"),
                select("value_format", formats, value_format, label="Value format"),
                hint="null deletes the key in a compacted topic"
                + (
                    "; avro, json-schema and protobuf take JSON and use the latest schema"
                    if frame.has_registry
                    else ""
                ),
            ),
            labelled(
                "Headers",
                tag(
                    "textarea",
                    frame.typed("headers"),
                    name="headers",
                    rows=2,
                    spellcheck="false",
                    placeholder="trace=1a2b",
                ),
                hint="one name=value per line",
            ),
            labelled(
                "Partition",
                text_input("partition", frame.typed("partition"), type="number"),
                hint="empty: chosen by key",
            ),
            tag("button", "Produce", class_="primary"),
            class_="stack",
        ),
        class_="panel",
        open=frame.problem is not None,
    )
