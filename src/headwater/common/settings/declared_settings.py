"""Declare settings as fields of a dataclass.

    num_partitions: int = setting(integer(1), 1, "Default number of partitions of a topic.")

Field `num_partitions` is Kafka's `num.partitions`. Type, default, meaning and update mode are
declared in one place; `settings_in` returns them. A field without a declaration is not a setting.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.common.settings.setting_types import SettingType, Value

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


class UpdateMode(Enum):
    """Update mode of a setting at runtime."""

    READ_ONLY = "read only"
    PER_BROKER = "per broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetting:
    """Declaration of one setting, without its value."""

    name: str
    kind: SettingType[Value | None]
    default: Value | None
    update_mode: UpdateMode
    doc: str
    has_effect: bool = True


def setting(
    kind: SettingType[T],
    default: T,
    doc: str,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
    *,
    has_effect: bool = True,
) -> T:
    """Declare a field as a setting.

    `has_effect=False` marks a Kafka setting that is checked and stored but changes nothing; a
    broker started with it logs a warning.
    """
    return field(
        default=default,
        metadata={"kind": kind, "doc": doc, "update_mode": update_mode, "has_effect": has_effect},
    )


def declared_fields(cls: "type[DataclassInstance]") -> Mapping[str, Field[Any]]:
    """Return the fields that are settings, by Kafka's names and in their order."""
    return {each.name.replace("_", "."): each for each in fields(cls) if "kind" in each.metadata}


def settings_in(cls: "type[DataclassInstance]") -> dict[str, BrokerSetting]:
    """Return every setting that a class declares, by its Kafka name."""
    return {
        name: BrokerSetting(
            name=name,
            kind=each.metadata["kind"],
            default=None if each.default is MISSING else each.default,
            update_mode=each.metadata["update_mode"],
            doc=each.metadata["doc"],
            has_effect=each.metadata["has_effect"],
        )
        for name, each in declared_fields(cls).items()
    }
