"""All paths of the console, with their data, page and change."""

from typing import Final

from headwater.console import actions, cluster_actions, page_data, schema_actions
from headwater.console.pages.groups import group_page, groups_page, reset_page
from headwater.console.pages.messages import messages_page
from headwater.console.pages.operations import (
    broker_configs_page,
    broker_loggers_page,
    brokers_page,
    quorum_page,
    reassignments_page,
)
from headwater.console.pages.overview import broker_page, overview_page
from headwater.console.pages.pipelines import pipeline_page, pipelines_page
from headwater.console.pages.records import record_page, records_page, tail_page
from headwater.console.pages.schemas import schema_page, subjects_page
from headwater.console.pages.security import acls_page, quotas_page, users_page
from headwater.console.pages.topic_groups import topic_groups_page
from headwater.console.pages.topics import configs_page, topic_page, topics_page
from headwater.console.pages.transactions import transactions_page
from headwater.console.server import ConsoleRoute

PATHS: Final = (
    ConsoleRoute(
        parts=("",),
        about="Start page; its JSON is /api/overview.",
        read=page_data.read_overview,
        view=overview_page,
    ),
    ConsoleRoute(
        parts=("overview",),
        about="Overview of the cluster.",
        read=page_data.read_overview,
        view=overview_page,
    ),
    ConsoleRoute(
        parts=("brokers", None),
        about="A broker: log directories and configs.",
        read=page_data.read_broker,
        view=broker_page,
    ),
    ConsoleRoute(
        parts=("brokers",),
        about="List brokers.",
        read=page_data.read_brokers,
        view=brokers_page,
    ),
    ConsoleRoute(
        parts=("brokers", None, "configs"),
        about="A broker's configs; or change one.",
        read=page_data.read_broker,
        view=broker_configs_page,
        change=cluster_actions.change_broker_config,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("brokers", None, "loggers"),
        about="A broker's loggers; or change a level.",
        read=page_data.read_loggers,
        view=broker_loggers_page,
        change=cluster_actions.change_logger,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("reassignments",),
        about="List partition reassignments.",
        read=page_data.read_reassignments,
        view=reassignments_page,
    ),
    ConsoleRoute(
        parts=("reassignments", "cancel"),
        about="Cancel a partition's reassignment.",
        change=cluster_actions.cancel_reassignment,
    ),
    ConsoleRoute(
        parts=("quorum",),
        about="The metadata quorum.",
        read=page_data.read_quorum,
        view=quorum_page,
    ),
    ConsoleRoute(
        parts=("acls",),
        about="List ACLs; or add one.",
        read=page_data.read_acls,
        view=acls_page,
        change=cluster_actions.create_acl,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("acls", "delete"),
        about="Delete an ACL.",
        change=cluster_actions.delete_acl,
    ),
    ConsoleRoute(
        parts=("users",),
        about="List SCRAM users; or set a password.",
        read=page_data.read_users,
        view=users_page,
        change=cluster_actions.save_user,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("users", "delete"),
        about="Delete a user's SCRAM credential.",
        change=cluster_actions.delete_user,
    ),
    ConsoleRoute(
        parts=("quotas",),
        about="List quotas; or set one.",
        read=page_data.read_quotas,
        view=quotas_page,
        change=cluster_actions.change_quota,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("topics",),
        about="List topics; or create one.",
        read=page_data.read_topics,
        view=topics_page,
        change=actions.create_topic,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("topics", None),
        about="A topic and its partitions.",
        read=page_data.read_topic,
        view=topic_page,
    ),
    ConsoleRoute(
        parts=("topics", None, "configs"),
        about="A topic's configs; or change one.",
        read=page_data.read_topic,
        view=configs_page,
        change=actions.change_config,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("topics", None, "partitions"),
        about="Add partitions to a topic.",
        change=actions.add_partitions,
    ),
    ConsoleRoute(
        parts=("topics", None, "delete"),
        about="Delete a topic.",
        change=actions.delete_topic,
    ),
    ConsoleRoute(
        parts=("topics", None, "records"),
        about="List records; or produce one.",
        read=page_data.read_records,
        view=records_page,
        change=actions.produce,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("topics", None, "records", None, None),
        about="The record at an offset of a partition.",
        read=page_data.read_record,
        view=record_page,
    ),
    ConsoleRoute(
        parts=("topics", None, "records", None, None, "key"),
        about="The key of a record, as stored.",
        read=page_data.read_raw_key,
    ),
    ConsoleRoute(
        parts=("topics", None, "records", None, None, "value"),
        about="The value of a record, as stored.",
        read=page_data.read_raw_value,
    ),
    ConsoleRoute(
        parts=("topics", None, "records", "delete"),
        about="Delete the records of a topic.",
        change=actions.delete_records,
    ),
    ConsoleRoute(
        parts=("topics", None, "tail"),
        about="New records, as server-sent events.",
        read=page_data.read_tail,
        view=tail_page,
    ),
    ConsoleRoute(
        parts=("topics", None, "groups"),
        about="The groups that consume a topic.",
        read=page_data.read_topic_groups,
        view=topic_groups_page,
    ),
    ConsoleRoute(
        parts=("messages",),
        about="The newest records of several topics.",
        read=page_data.read_messages,
        view=messages_page,
    ),
    ConsoleRoute(
        parts=("groups",),
        about="List groups.",
        read=page_data.read_groups,
        view=groups_page,
    ),
    ConsoleRoute(
        parts=("groups", None),
        about="A group: members, offsets, lag.",
        read=page_data.read_group,
        view=group_page,
    ),
    ConsoleRoute(
        parts=("groups", None, "reset"),
        about="Preview an offset reset; or apply a plan.",
        read=page_data.read_reset,
        view=reset_page,
        change=actions.reset_offsets,
    ),
    ConsoleRoute(
        parts=("groups", None, "delete"),
        about="Delete a group.",
        change=actions.delete_group,
    ),
    ConsoleRoute(
        parts=("pipelines",),
        about="List the published runs of pipelines.",
        read=page_data.read_pipelines,
        view=pipelines_page,
    ),
    ConsoleRoute(
        parts=("pipelines", None),
        about="A run of a pipeline and its queries.",
        read=page_data.read_pipeline,
        view=pipeline_page,
    ),
    ConsoleRoute(
        parts=("pipelines", None, "stop"),
        about="Ask a run to stop.",
        change=actions.stop_pipeline,
    ),
    ConsoleRoute(
        parts=("transactions",),
        about="Transactional ids, and open transactions of partitions.",
        read=page_data.read_transactions,
        view=transactions_page,
    ),
    ConsoleRoute(
        parts=("transactions", "abort"),
        about="Abort a hanging transaction.",
        change=actions.abort_transaction,
    ),
    ConsoleRoute(
        parts=("schemas",),
        about="List the registry's subjects; or register a schema.",
        read=page_data.read_subjects,
        view=subjects_page,
        change=schema_actions.register_subject,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("schemas", None),
        about="A schema; the latest, or version=N; or register or check a version.",
        read=page_data.read_schema,
        view=schema_page,
        change=schema_actions.register_version,
        shows_forms=True,
    ),
    ConsoleRoute(
        parts=("schemas", None, "compatibility"),
        about="Set a subject's compatibility level.",
        change=schema_actions.set_compatibility,
    ),
)
