"""Addresses in one spelling, so that a rule about an address meets whoever comes from there.

Java spells IPv6 addresses out (`0:0:0:0:0:0:0:1`), and everybody else shortens them; and a socket
that listens for both families calls an IPv4 peer `::ffff:192.0.2.1`. A DENY that is spelled
otherwise than the peer's address would be no DENY at all.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address


@lru_cache(maxsize=1_024)
def canonical_host(text: str) -> str:
    """The address as Python spells it; what is no address, as `*`, stays as it is."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
