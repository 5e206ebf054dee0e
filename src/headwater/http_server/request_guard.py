"""Protect HTTP ports from pages of other sites, by checks of request headers.

A port on localhost or in a private network is within reach of every web page that a user there has
open. These checks stop such pages:

- The requested host (`Host`) must be an IP address, localhost, a name without a dot, or an allowed
  name. A page whose own name is made to resolve to 127.0.0.1 (DNS rebinding) still sends that name,
  and names on the web have a dot.
- A request that changes something must come from a page of the same origin (`Origin`), or from a
  program.
- A background request of another site is rejected (`Sec-Fetch-Site`).

Note: a program such as curl sends no `Origin`, and is served. Browsers always send one with a
request that could change something.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from headwater.http_server.http_errors import HttpError

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

ANY_HOST: Final = "*"


class Forbidden(HttpError):
    """The request comes from another site or uses an unknown host name."""

    def __init__(self, message: str) -> None:
        super().__init__(403, message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """The checks of one port."""

    service: str
    """Name of the service in error messages."""
    hosts: frozenset[str] = frozenset()
    """Allowed host names in lower case; `*.example` allows all subdomains, `*` any name."""

    def check_host(self, host: str | None) -> None:
        """Reject host names that are not allowed."""
        name = _host_name(host or "")
        if self._is_ours(name):
            return
        raise Forbidden(
            f"This {self.service} is not known by the name '{name}'. If that is its name, start it "
            f"with --host {name}; otherwise use its address."
        )

    def check_reader(self, headers: Mapping[str, str]) -> None:
        """Reject background requests of other sites; links from them are allowed."""
        site = headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and headers.get("sec-fetch-mode") != "navigate":
            raise Forbidden(f"Another site asked for this. Open the {self.service} itself.")

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Reject changes requested by a page of another site."""
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        is_ours = origin is None or origin.partition("://")[2] == headers.get("host")
        if not is_ours or site not in ("same-origin", "none"):
            raise Forbidden(f"Changes are made from the {self.service}'s own pages only.")

    def _is_ours(self, name: str) -> bool:
        if name.endswith(".localhost") or _is_address(name):
            return True
        if name and "." not in name:
            return True
        _, _, parent = name.partition(".")
        parents = [f"*.{parent}"]
        while "." in parent:
            _, _, parent = parent.partition(".")
            parents.append(f"*.{parent}")
        return not self.hosts.isdisjoint((name, ANY_HOST, *parents))


def is_loopback(host: str) -> bool:
    """Whether an address is only reachable from this machine."""
    if host == "localhost":
        return True
    return _is_address(host) and ip_address(host).is_loopback


def _host_name(host: str) -> str:
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name if not rest or rest.startswith(":") else host
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
