"""Merge the settings that a broker is started with, and classify them.

A `server.properties` written for Kafka works here. As in Kafka, an unknown name does not prevent
the start: it is reported with the nearest known name, and `--strict` rejects it. Settings of Kafka
that have no effect are reported too, each with its reason.

Note: two kinds of settings still prevent the start. One names several KRaft nodes: a node meant for
a cluster and started alone would accept records that its cluster never sees. The other would leave
the broker less protected than configured (`rejection_reason`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.common.exceptions import InvalidSetting
from headwater.common.settings.broker_properties import known_setting, unknown_setting_error
from headwater.common.settings.broker_settings import BrokerSettings
from headwater.common.settings.quorum_settings import is_quorum_setting
from headwater.common.settings.setting_types import split_list
from headwater.common.settings.topic_synonyms import TOPIC_SETTINGS
from headwater.common.settings.unsupported_settings import rejection_reason, unsupported_reason

# Synonyms: the first one that is set counts, wherever it is set.
_ALIASES = (
    ("node.id", "broker.id"),
    ("log.dirs", "log.dir"),
    *(
        setting.synonyms
        for name, setting in TOPIC_SETTINGS.items()
        # The scheduler's interval is also a setting of its own, not only a default of flush.ms.
        if len(setting.synonyms) > 1 and name != "flush.ms"
    ),
)
_PROTOCOL_MAP = "listener.security.protocol.map"
_MEMBERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """Settings to start with, and the reason for each setting without effect.

    `without_effect` are settings of Kafka, `unknown` are names that neither Kafka nor Headwater
    has.
    """

    texts: Mapping[str, str]
    without_effect: Mapping[str, str]
    unknown: Mapping[str, str]


def layered(*layers: Mapping[str, str]) -> dict[str, str]:
    """Merge layers of settings; later layers win.

    A layer that sets one of several synonyms also removes the others from the layers below:
    `log.retention.hours` on the command line wins over `log.retention.ms` in a file.
    """
    result: dict[str, str] = {}
    for layer in layers:
        for aliases in _ALIASES:
            if any(name in layer for name in aliases):
                for name in aliases:
                    result.pop(name, None)
        result.update(layer)
    return result


def supported_properties(texts: Mapping[str, str]) -> ServerProperties:
    """Classify settings; raise `InvalidSetting` for one that prevents the start."""
    _refuse_clusters(texts)
    found = _classified(texts)
    served = dict(found.texts)
    _leave_controllers_out(served, split_list(texts.get("controller.listener.names", "")))
    return ServerProperties(served, found.without_effect, found.unknown)


def controller_properties(texts: Mapping[str, str]) -> ServerProperties:
    """Classify the settings of a KRaft node other than those of its quorum."""
    others = {name: text for name, text in texts.items() if not is_quorum_setting(name)}
    if _PROTOCOL_MAP not in others:
        # As in Kafka, controller listeners are PLAINTEXT unless a map says otherwise.
        names = split_list(texts.get("controller.listener.names", ""))
        known = BrokerSettings().listener_security_protocol_map
        others[_PROTOCOL_MAP] = ",".join([*known, *(f"{name}:PLAINTEXT" for name in names)])
    return _classified(others)


def kraft_broker_properties(texts: Mapping[str, str]) -> ServerProperties:
    """Classify the settings of a node that is only a broker of a KRaft cluster."""
    if "zookeeper.connect" in texts:
        raise InvalidSetting("zookeeper.connect and process.roles: give only one of them")
    names = [
        f"{each.upper()}://" for each in split_list(texts.get("controller.listener.names", ""))
    ]
    for entry in split_list(texts.get("listeners", "")):
        if entry.upper().startswith(tuple(names)):
            raise InvalidSetting(
                f"listeners has {entry}, a listener of controller.listener.names; a node with "
                "process.roles=broker has no controller listener"
            )
    return controller_properties(texts)


def combined_properties(
    texts: Mapping[str, str],
) -> tuple[ServerProperties, ServerProperties]:
    """Classify the settings of both roles of a node: the broker's, the controller's."""
    names = tuple(
        f"{each.upper()}://" for each in split_list(texts.get("controller.listener.names", ""))
    )
    broker, controller = dict(texts), dict(texts)
    # The broker's port also has the controller's metrics.
    controller.pop("headwater.metrics.listener", None)
    # It names a listener of the broker.
    controller.pop("security.inter.broker.protocol", None)
    for setting in ("listeners", "advertised.listeners"):
        for entries, is_controller in ((broker, False), (controller, True)):
            kept = [
                each
                for each in split_list(texts.get(setting, ""))
                if each.upper().startswith(names) is is_controller
            ]
            entries.pop(setting, None)
            if kept:
                entries[setting] = ",".join(kept)
    return kraft_broker_properties(broker), controller_properties(controller)


def names_several_nodes(texts: Mapping[str, str]) -> bool:
    """Return whether a quorum setting names several nodes."""
    return any(len(split_list(texts.get(name, ""))) > 1 for name in _MEMBERS)


def _classified(texts: Mapping[str, str]) -> ServerProperties:
    served: dict[str, str] = {}
    without_effect: dict[str, str] = {}
    unknown: dict[str, str] = {}
    for name, text in texts.items():
        known = known_setting(name)
        refused = rejection_reason(name, text)
        if refused is not None:
            raise InvalidSetting(refused)
        if known is not None:
            # Checked and described like any other, even without effect.
            served[name] = text
            if not known.has_effect:
                without_effect[name] = known.doc
        elif (reason := unsupported_reason(name)) is not None:
            without_effect[name] = reason
        else:
            unknown[name] = unknown_setting_error(name)
    return ServerProperties(served, without_effect, unknown)


def _refuse_clusters(texts: Mapping[str, str]) -> None:
    roles = texts.get("process.roles")
    if roles is not None and sorted(split_list(roles)) != ["broker", "controller"]:
        raise InvalidSetting(f"process.roles={roles}: the roles are broker, controller, or both")
    for name in _MEMBERS:
        if len(split_list(texts.get(name, ""))) > 1:
            raise InvalidSetting(
                f"{name} names several nodes; set process.roles to start a node of their "
                "cluster, or remove it to start a single broker"
            )


def _leave_controllers_out(texts: dict[str, str], names: tuple[str, ...]) -> None:
    """Remove the listeners for KRaft controllers."""
    if not names:
        return
    controllers = tuple(f"{name.upper()}://" for name in names)
    for setting in ("listeners", "advertised.listeners"):
        entries = split_list(texts.get(setting, ""))
        kept = [entry for entry in entries if not entry.upper().startswith(controllers)]
        if len(kept) < len(entries):
            texts[setting] = ",".join(kept)
            if not kept:
                del texts[setting]
