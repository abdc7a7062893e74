"""Checks of the doctor: settings that are valid but harmful."""

from collections.abc import Iterator
from importlib.util import find_spec
from urllib.parse import urlsplit

from tenantry.cli.doctor.findings import Finding, State
from tenantry.settings import IpNetwork, Settings

# A wider network is not a private range (RFC 1918, RFC 4193).
PREFIX_MIN = {4: 8, 6: 7}
PUBLIC_ADDRESSES_MAX = 2**16
LOCK_TRIES = 4
"""How often a migration waits for one lock; see docs/howto/when-a-tenant-fails.md."""
DEADLINE_S_MAX = 24 * 3600


def check_configuration(settings: Settings) -> list[Finding]:
    """Return a finding for each setting that is valid but harmful."""
    return [
        *_check_proxies(settings.proxy_networks),
        *_check_origins(settings.cors_origins),
        *_check_times(settings),
        *_check_driver(settings.migration_driver),
    ]


def _check_proxies(networks: list[IpNetwork]) -> Iterator[Finding]:
    advice = "List only the addresses of your proxies, such as 10.1.2.3 or 10.1.0.0/16."
    for network in networks:
        if network.prefixlen == 0:
            detail = f"{network} is every address: any client can claim any address."
            yield Finding("TENANTRY_TRUSTED_PROXIES", State.FAILED, detail, advice)
        elif network.prefixlen < PREFIX_MIN[network.version] or (
            not network.is_private and network.num_addresses > PUBLIC_ADDRESSES_MAX
        ):
            detail = f"{network} has many addresses; each can claim any client address."
            yield Finding("TENANTRY_TRUSTED_PROXIES", State.WARNING, detail, advice)


def _check_origins(text: str) -> Iterator[Finding]:
    for origin in (one.strip() for one in text.split(",")):
        if origin == "*":
            detail = "`*` lets the pages of every site call the API."
            advice = "List the origins of your own pages, such as https://www.example.com."
            yield Finding("TENANTRY_CORS_ORIGINS", State.WARNING, detail, advice)
        elif origin and not _is_origin(origin):
            advice = "Write scheme and host without a path: https://www.example.com."
            detail = f"{origin!r} is not an origin, and matches no page."
            yield Finding("TENANTRY_CORS_ORIGINS", State.WARNING, detail, advice)


def _is_origin(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_complete = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    has_rest = parts.path or parts.query or parts.fragment or "@" in parts.netloc
    return parts.scheme in {"http", "https"} and is_complete and not has_rest


def _check_times(settings: Settings) -> Iterator[Finding]:
    lock_s, deadline_s = settings.lock_timeout_ms / 1000, settings.tenant_deadline_s
    statement_s = settings.statement_timeout_s
    if lock_s >= statement_s:
        yield Finding(
            "TENANTRY_LOCK_TIMEOUT_MS",
            State.WARNING,
            f"A migration can wait {lock_s:g} s for a lock. Requests wait behind it, and fail "
            f"after {statement_s:g} s.",
            f"Set it below {statement_s * 1000:.0f}, which is TENANTRY_STATEMENT_TIMEOUT_S.",
        )
    if deadline_s < LOCK_TRIES * lock_s:
        yield Finding(
            "TENANTRY_TENANT_DEADLINE_S",
            State.WARNING,
            f"{deadline_s:g} s end before {LOCK_TRIES} waits of {lock_s:g} s for a lock.",
            f"Set it to {LOCK_TRIES * lock_s:.0f} or more.",
        )
    if deadline_s > DEADLINE_S_MAX:
        detail = f"A tenant that hangs occupies a migration task for {deadline_s:g} s."
        advice = f"Set it to {DEADLINE_S_MAX} (a day) or less."
        yield Finding("TENANTRY_TENANT_DEADLINE_S", State.WARNING, detail, advice)


def _check_driver(name: str) -> Iterator[Finding]:
    if find_spec(name) is None:
        detail = f"The driver {name} is not installed: revisions that run live will fail."
        advice = "Install it, or remove the setting."
        yield Finding("TENANTRY_MIGRATION_DRIVER", State.FAILED, detail, advice)
