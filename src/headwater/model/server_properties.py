"""What a broker is started with: layers of texts, and what of a Kafka file can be obeyed.

A `server.properties` that was written for Kafka shall start a broker here. So settings that
Kafka knows and Headwater does not need are put aside, each with its reason, for somebody to warn
of; `broker_properties` then refuses the rest that it does not know. What a reader would get wrong:
"several brokers" is not put aside. A node that was meant for a cluster and started alone would
take records that its cluster never sees.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from headwater.model.broker_properties import is_about_security, known_settings
from headwater.model.failures import InvalidSetting
from headwater.model.setting_kinds import split_list
from headwater.model.topic_synonyms import TOPIC_SETTINGS
from headwater.model.unserved_settings import why_unserved

# Several names for one thing: of these the first that is set counts, wherever it is set.
_ALIASES = (
    ("node.id", "broker.id"),
    ("log.dirs", "log.dir"),
    *(
        setting.synonyms
        for name, setting in TOPIC_SETTINGS.items()
        # The scheduler's interval is a setting of its own, besides being a default of flush.ms.
        if len(setting.synonyms) > 1 and name != "flush.ms"
    ),
)
_MEMBERS = ("controller.quorum.voters", "controller.quorum.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class ServerProperties:
    """The texts that are to be obeyed, and why each of the others is not."""

    texts: Mapping[str, str]
    put_aside: Mapping[str, str]


def layered(*layers: Mapping[str, str]) -> dict[str, str]:
    """All texts, of which a later layer's win.

    A layer that sets one of several names for the same thing also takes away the others of the
    layers below: `log.retention.hours` on the command line wins over `log.retention.ms` in a file.
    """
    result: dict[str, str] = {}
    for layer in layers:
        for aliases in _ALIASES:
            if any(name in layer for name in aliases):
                for name in aliases:
                    result.pop(name, None)
        result.update(layer)
    return result


def served_properties(texts: Mapping[str, str]) -> ServerProperties:
    """Part what can be obeyed from what is put aside; `InvalidSetting` if it must be neither."""
    _refuse_clusters(texts)
    served: dict[str, str] = {}
    put_aside: dict[str, str] = {}
    for name, text in texts.items():
        reason = _why_put_aside(name, text)
        if reason is None:
            served[name] = text
        else:
            put_aside[name] = reason
    _leave_controllers_out(served, split_list(texts.get("controller.listener.names", "")))
    return ServerProperties(served, put_aside)


def _why_put_aside(name: str, text: str) -> str | None:
    if name in known_settings():
        return None
    if name == "security.protocol" and text.strip() == "PLAINTEXT":
        return "it is a setting of clients"
    if is_about_security(name):
        # An empty text asks for nothing, and Kafka takes it so.
        return None if text.strip() else "it is empty"
    return why_unserved(name)


def _refuse_clusters(texts: Mapping[str, str]) -> None:
    roles = texts.get("process.roles")
    if roles is not None and sorted(split_list(roles)) != ["broker", "controller"]:
        raise InvalidSetting(
            f"process.roles={roles}: a node is broker and controller at once; leave it out"
        )
    for name in _MEMBERS:
        if len(split_list(texts.get(name, ""))) > 1:
            raise InvalidSetting(
                f"{name} names several nodes: clusters are not built yet; "
                "leave it out to start a broker that is alone"
            )


def _leave_controllers_out(texts: dict[str, str], names: tuple[str, ...]) -> None:
    """Drop the listeners on which a Kafka node talks to controllers."""
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
