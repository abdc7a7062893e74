"""Group client addresses by network, for limits that count each client."""

import ipaddress

# A client with one IPv6 address usually has a whole network of this size (RFC 6177).
IPV6_NETWORK_BITS = 64


def network_of(address: str) -> str:
    """Return the network of *address*: the /64 of an IPv6 address, else *address* itself.

    An IPv4-mapped IPv6 address is the IPv4 address (RFC 4291, section 2.5.5.2).
    """
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    if ip.ipv4_mapped is not None:
        return str(ip.ipv4_mapped)
    return str(ipaddress.ip_network((ip, IPV6_NETWORK_BITS), strict=False))
