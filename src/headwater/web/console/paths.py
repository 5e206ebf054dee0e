"""Every path of the console, with what it reads, how that looks, and what it changes."""

from typing import Final

from headwater.web.console import changes, reads
from headwater.web.console.door import Path
from headwater.web.console.pages.groups import group_page, groups_page, reset_page
from headwater.web.console.pages.overview import broker_page, overview_page
from headwater.web.console.pages.records import record_page, records_page, tail_page
from headwater.web.console.pages.schemas import schema_page, subjects_page
from headwater.web.console.pages.topic_groups import topic_groups_page
from headwater.web.console.pages.topics import configs_page, topic_page, topics_page
from headwater.web.console.pages.transactions import transactions_page

PATHS: Final = (
    Path(
        parts=("",),
        about="Where pages begin; its JSON is /api/overview.",
        read=reads.read_overview,
        view=overview_page,
    ),
    Path(
        parts=("overview",),
        about="The cluster at a glance.",
        read=reads.read_overview,
        view=overview_page,
    ),
    Path(
        parts=("brokers", None),
        about="A broker: disks and configs.",
        read=reads.read_broker,
        view=broker_page,
    ),
    Path(
        parts=("topics",),
        about="A page of the topics; or make one.",
        read=reads.read_topics,
        view=topics_page,
        change=changes.create_topic,
        shows_forms=True,
    ),
    Path(
        parts=("topics", None),
        about="A topic and its partitions.",
        read=reads.read_topic,
        view=topic_page,
    ),
    Path(
        parts=("topics", None, "configs"),
        about="A topic's configs; or change one.",
        read=reads.read_topic,
        view=configs_page,
        change=changes.change_config,
        shows_forms=True,
    ),
    Path(
        parts=("topics", None, "partitions"),
        about="Add partitions to a topic.",
        change=changes.add_partitions,
    ),
    Path(
        parts=("topics", None, "delete"),
        about="Delete a topic.",
        change=changes.delete_topic,
    ),
    Path(
        parts=("topics", None, "records"),
        about="A page of records; or write one.",
        read=reads.read_records,
        view=records_page,
        change=changes.produce,
        shows_forms=True,
    ),
    Path(
        parts=("topics", None, "records", None, None),
        about="The record of a partition and an offset.",
        read=reads.read_record,
        view=record_page,
    ),
    Path(
        parts=("topics", None, "records", None, None, "key"),
        about="The key of a record, as it is stored.",
        read=reads.read_raw_key,
    ),
    Path(
        parts=("topics", None, "records", None, None, "value"),
        about="The value of a record, as it is stored.",
        read=reads.read_raw_value,
    ),
    Path(
        parts=("topics", None, "records", "delete"),
        about="Delete the records of a topic.",
        change=changes.delete_records,
    ),
    Path(
        parts=("topics", None, "tail"),
        about="Records from now on, as server-sent events.",
        read=reads.read_tail,
        view=tail_page,
    ),
    Path(
        parts=("topics", None, "groups"),
        about="The groups that read a topic.",
        read=reads.read_topic_groups,
        view=topic_groups_page,
    ),
    Path(
        parts=("groups",),
        about="A page of the groups.",
        read=reads.read_groups,
        view=groups_page,
    ),
    Path(
        parts=("groups", None),
        about="A group: members, offsets, lag.",
        read=reads.read_group,
        view=group_page,
    ),
    Path(
        parts=("groups", None, "reset"),
        about="What a reset of offsets would do; or carry a plan out.",
        read=reads.read_reset,
        view=reset_page,
        change=changes.reset_offsets,
    ),
    Path(
        parts=("groups", None, "delete"),
        about="Delete a group.",
        change=changes.delete_group,
    ),
    Path(
        parts=("transactions",),
        about="Transactional ids, and what partitions wait for.",
        read=reads.read_transactions,
        view=transactions_page,
    ),
    Path(
        parts=("transactions", "abort"),
        about="Abort a transaction that hangs.",
        change=changes.abort_transaction,
    ),
    Path(
        parts=("schemas",),
        about="A page of the registry's subjects.",
        read=reads.read_subjects,
        view=subjects_page,
    ),
    Path(
        parts=("schemas", None),
        about="A schema; the newest, or version=N.",
        read=reads.read_schema,
        view=schema_page,
    ),
)
