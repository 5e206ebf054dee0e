"""Settings of KRaft nodes: roles, quorum, metadata log, heartbeats."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.declared_settings import setting as _setting
from headwater.common.settings.declared_settings import settings_in
from headwater.common.settings.setting_types import (
    Value,
    integer,
    list_of,
    long,
    names,
    optional,
    split_list,
    text,
)

CONTROLLER: Final = "controller"
BROKER: Final = "broker"
QUORUM_FILE: Final = "quorum.json"
"""Describes the quorum of a cluster on one machine, in the directory of its brokers."""


class HostAndPort(NamedTuple):
    host: str
    port: int


class StaticVoter(NamedTuple):
    """An entry of `controller.quorum.voters`."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSettings:
    """Settings of the metadata quorum as Python values."""

    process_roles: tuple[str, ...] = _setting(
        list_of(BROKER, CONTROLLER), (), "Roles of this node: broker, controller or both."
    )
    controller_listener_names: tuple[str, ...] = _setting(
        names(), (), "Listeners of the controller; the first one is used between controllers."
    )
    sasl_mechanism_controller_protocol: str | None = _setting(
        optional(text()), None, "SASL mechanism towards controllers."
    )
    controller_quorum_voters: tuple[str, ...] = _setting(
        names(), (), "Voters of a static quorum (id@host:port)."
    )
    controller_quorum_bootstrap_servers: tuple[str, ...] = _setting(
        names(), (), "Controllers to find the quorum with (host:port)."
    )
    controller_quorum_election_timeout_ms: int = _setting(
        integer(0), 1_000, "How long a candidate waits for votes."
    )
    controller_quorum_election_backoff_max_ms: int = _setting(
        integer(0), 1_000, "Maximum backoff before another election."
    )
    controller_quorum_fetch_timeout_ms: int = _setting(
        integer(0), 2_000, "How long a follower waits for its leader before an election."
    )
    controller_quorum_request_timeout_ms: int = _setting(
        integer(0), 2_000, "How long a controller waits for the response of another one."
    )
    controller_quorum_retry_backoff_ms: int = _setting(
        integer(0), 20, "Wait before a failed request is sent again."
    )
    controller_quorum_append_linger_ms: int = _setting(
        integer(0),
        25,
        "Accepted for compatibility; appends are batched while a sync is under way.",
        has_effect=False,
    )
    metadata_log_dir: str | None = _setting(
        optional(text()), None, "Directory of the metadata log; null for the first of log.dirs."
    )
    metadata_log_segment_bytes: int = _setting(
        integer(12), 1_073_741_824, "Maximum size of a segment of the metadata log."
    )
    metadata_log_segment_ms: int = _setting(
        long(0), 604_800_000, "Maximum age of a segment of the metadata log."
    )
    metadata_log_max_record_bytes_between_snapshots: int = _setting(
        long(1), 20_971_520, "Bytes of records after which a snapshot is taken."
    )
    metadata_log_max_snapshot_interval_ms: int = _setting(
        long(0), 3_600_000, "Maximum time between snapshots if there are new records."
    )
    metadata_max_retention_bytes: int = _setting(
        long(-1), 104_857_600, "Size of log and snapshots above which old ones are deleted."
    )
    metadata_max_retention_ms: int = _setting(
        long(-1), 604_800_000, "Age above which old records and snapshots are deleted."
    )
    metadata_max_idle_interval_ms: int = _setting(
        integer(0), 500, "How often an idle active controller writes a no-op record."
    )

    broker_heartbeat_interval_ms: int = _setting(
        integer(1), 2_000, "How often a broker sends a heartbeat to the active controller."
    )
    broker_session_timeout_ms: int = _setting(
        integer(1), 9_000, "How long a broker stays unfenced without a heartbeat."
    )
    initial_broker_registration_timeout_ms: int = _setting(
        integer(0), 60_000, "How long a starting broker tries to register."
    )

    @property
    def voters(self) -> tuple[StaticVoter, ...]:
        return tuple(_voter(each) for each in self.controller_quorum_voters)

    @property
    def bootstrap_servers(self) -> tuple[HostAndPort, ...]:
        return tuple(
            _host_and_port(each, "controller.quorum.bootstrap.servers")
            for each in self.controller_quorum_bootstrap_servers
        )


def is_quorum_setting(name: str) -> bool:
    return name in settings_in(QuorumSettings)


def roles_of(texts: Mapping[str, str]) -> tuple[str, ...]:
    return split_list(texts.get("process.roles", ""))


def parse_quorum_settings(texts: Mapping[str, str]) -> QuorumSettings:
    """Parse the quorum's settings among others; InvalidSetting for a wrong value."""
    values: dict[str, Value | None] = {}
    for name, each in settings_in(QuorumSettings).items():
        if name in texts:
            try:
                values[name.replace(".", "_")] = each.kind.parse(texts[name].strip())
            except ValueError as error:
                raise InvalidSetting(f"{name}={texts[name]}: {error}") from error
    assert values.keys() <= {each.name for each in fields(QuorumSettings)}
    # mypy cannot see that each kind returns its own field's type; the declaration ensures it.
    settings = QuorumSettings(**values)  # type: ignore[arg-type]
    _check_together(settings)
    return settings


def _check_together(settings: QuorumSettings) -> None:
    ids = [voter.node_id for voter in settings.voters]
    if len(ids) > len(dict.fromkeys(ids)):
        raise InvalidSetting("controller.quorum.voters has a node id twice")
    assert settings.bootstrap_servers is not None
    if not settings.process_roles:
        return
    if not settings.controller_listener_names:
        raise InvalidSetting("controller.listener.names is required with process.roles")
    if not settings.controller_quorum_voters and not settings.controller_quorum_bootstrap_servers:
        raise InvalidSetting(
            "set controller.quorum.bootstrap.servers, or controller.quorum.voters for a static "
            "quorum"
        )


def _voter(entry: str) -> StaticVoter:
    node_id, at, address = entry.partition("@")
    if not at or not node_id.isdecimal():
        raise InvalidSetting(f"controller.quorum.voters: {entry!r} must be id@host:port")
    return StaticVoter(int(node_id), *_host_and_port(address, "controller.quorum.voters"))


def _host_and_port(address: str, name: str) -> HostAndPort:
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:
        raise InvalidSetting(f"{name}: {address!r} must be host:port")
    return HostAndPort(host.strip("[]"), int(port))
