"""Media types of the API and their negotiation."""

from collections.abc import Sequence
from typing import Final

from headwater.rest.formats.embedded_format import EmbeddedFormat

JSON: Final = "application/json"
V2: Final = "application/vnd.kafka.v2+json"
ANY_VERSION: Final = "application/vnd.kafka+json"

V2_EMBEDDED: Final = {
    f"application/vnd.kafka.{each.value.lower()}.v2+json": each
    for each in EmbeddedFormat
    if each is not EmbeddedFormat.STRING
}
V2_PLAIN: Final = (V2, ANY_VERSION, JSON)
V2_ALL: Final = (*V2_PLAIN, *V2_EMBEDDED)


def accepted(header: str | None) -> list[str]:
    """The media types of an `Accept` header in lower case, best first."""
    if header is None or not header.strip():
        return ["*/*"]
    weighted: list[tuple[float, str]] = []
    for each in header.split(","):
        kind, _, parameters = each.partition(";")
        weight = _weight(parameters)
        if weight > 0:
            weighted.append((-weight, kind.strip().lower()))
    # The sort is stable: among equal weights the client's order counts.
    return [kind for _, kind in sorted(weighted, key=lambda pair: pair[0])]


def chosen_type(wanted: Sequence[str], offered: Sequence[str]) -> str | None:
    """The offered type that the client likes best; None if it accepts none."""
    for each in wanted:
        if each in offered:
            return each
        if each in ("*/*", "application/*"):
            return offered[0]
    return None


def _weight(parameters: str) -> float:
    for each in parameters.split(";"):
        name, _, value = each.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
