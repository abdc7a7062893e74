"""Client addresses, as far as limits tell them apart."""

import ipaddress

# Whoever has one IPv6 address usually has a whole network of this size (RFC 6177).
IPV6_NETWORK_BITS = 64


def network_of(address: str) -> str:
    """Return what all addresses of one client have in common; any text that is no address."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is None:
        return str(ipaddress.ip_network((ip, IPV6_NETWORK_BITS), strict=False))
    return str(ip)
