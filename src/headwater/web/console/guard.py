"""Who may ask the console what: pure checks of a request's headers.

A console on localhost is within reach of every page that its user has open. What stops them:

- The name that was asked for (`Host`) is an address, localhost, or one that was allowed. A page of
  elsewhere that has its own name point to 127.0.0.1 (DNS rebinding) still sends its own name.
- Whoever wants to change something comes from a page of this console (`Origin`), and has its token.
- Nothing is changed by GET.

What a reader would get wrong: a program such as curl sends no `Origin`, and that is fine, because
browsers always send one with a request that changes something.
"""

import hmac
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from headwater.web.console.refusals import Refusal

TOKEN_FIELD: Final = "token"

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Not no-referrer: browsers would then send `Origin: null` with our own forms.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def check_host(host: str | None, allowed: frozenset[str]) -> None:
    """Refuse names that nobody gave to this console."""
    name = _host_name(host or "")
    if name in allowed or name == "localhost" or name.endswith(".localhost") or _is_address(name):
        return
    raise Refusal(
        403,
        f"This console does not go by the name '{name}'. If that is its name, start it with "
        f"--host {name}; else use its address, such as http://127.0.0.1:8080.",
    )


def check_reader(headers: Mapping[str, str]) -> None:
    """Refuse what a page of elsewhere loads in the background; it may still link here."""
    site = headers.get("sec-fetch-site", "none")
    if site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate":
        raise Refusal(403, "Another page asked for this. Open the console itself.")


def check_origin(headers: Mapping[str, str]) -> None:
    """Refuse a change that a page of elsewhere asks for."""
    origin = headers.get("origin")
    site = headers.get("sec-fetch-site", "same-origin")
    is_ours = origin is None or origin.partition("://")[2] == headers.get("host")
    if not is_ours or site not in ("same-origin", "none"):
        raise Refusal(403, "Changes are made from the console's own pages only.")


def check_token(given: str, token: str) -> None:
    if not hmac.compare_digest(given.encode(), token.encode()):
        raise Refusal(
            403,
            "This form is from before the console was started anew. Load the page again, and "
            "then do it.",
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    return _is_address(host) and ip_address(host).is_loopback


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
