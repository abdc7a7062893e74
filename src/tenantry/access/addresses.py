"""Group client addresses by network, for limits that count each client."""

import ipaddress

# A client with one IPv6 address usually has a whole network of this size (RFC 6177).
IPV6_NETWORK_BITS = 64


def network_of(address: str) -> str:
    """Return the network of *address*: the /64 of an IPv6 address, else *address* itself."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, IPV6_NETWORK_BITS), strict=False))
    return str(ip)
