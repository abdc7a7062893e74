"""URLs of PostgreSQL databases, for both drivers: asyncpg and libpq.

The two drivers know different parameters, and asyncpg sends one that it does not know to the
server as a setting. So the URL is parsed here, once for both. A parameter that only one of them
supports is rejected by name: otherwise it would hold for migrations and not for requests.
"""

import ipaddress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

SCHEMES = ("postgresql", "postgres")
PORT_DEFAULT = 5432
PORT_MAX = 65_535
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
# Tenantry writes, so it cannot use a standby.
SESSION_ATTRIBUTES = ("any", "primary", "read-write")
# Both drivers support these.
# Source: PostgreSQL manual, 32.1.2 "Parameter Key Words"; asyncpg's `connect_utils`.
TLS_PARAMETERS = frozenset(
    {
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
    }
)
_PLACES = ("host", "port", "user", "password")
SUPPORTED = TLS_PARAMETERS | {
    *_PLACES,
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "gssencmode",
    "options",
    "passfile",
    "target_session_attrs",
}
# A thread that waits for libpq has no deadline: a connection to a machine that is gone breaks after
# 40 s. A server that is there can take longer to answer. Ignored for a socket that is a file.
# Source: PostgreSQL manual, 32.1.2 "Parameter Key Words".
KEEPALIVE = {
    "keepalives_idle": "20",
    "keepalives_interval": "5",
    "keepalives_count": "4",
    "tcp_user_timeout": "40000",
}
# The driver's default is that of the environment, or of the role.
ENCODING = {"client_encoding": "UTF8"}
# Values that both drivers treat alike: asyncpg has neither GSSAPI encryption nor channel binding.
_VALUES = {
    "channel_binding": ("disable", "prefer"),
    "client_encoding": ("utf8", "utf-8", "auto"),
    "gssencmode": ("disable", "prefer"),
    "target_session_attrs": SESSION_ATTRIBUTES,
}
_HINT = (
    "is not a valid URL: check host and port, and percent-encode special characters "
    "in the password (%23 for #, %2F for /, %3F for ?, %40 for @)"
)


class BadPostgresUrl(ValueError):
    """A URL is malformed, or has an unsupported parameter; the message has no secret."""


@dataclass(frozen=True)
class PostgresUrl:
    """The parts of a URL; None for a part that is not given.

    Attributes:
        hosts: Hosts and ports in the order of the URL; a host that begins with a slash is the
            folder of a socket. Empty without a host: each driver uses its default.
        parameters: The parameters of the connection, by their names in libpq.
        settings: The settings of the server, such as ``search_path``.
    """

    hosts: tuple[tuple[str, int], ...]
    user: str | None
    password: str | None
    database: str | None
    parameters: dict[str, str]
    settings: dict[str, str]

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """The hosts and ports in one spelling, in which the three names of this machine are one."""
        return tuple((_one_spelling(host), port) for host, port in self.hosts)

    @property
    def place(self) -> str:
        """The URL to show: user, hosts and database, in one spelling, without other parameters.

        Settings and ``options`` can select a schema, so different ones are different places. A
        digest stands for them. It hides nothing that can be guessed: they must not be secret.
        """
        login = f"{quote(self.user, safe='')}@" if self.user else ""
        hosts = ",".join(_shown_host(host, port) for host, port in self.servers)
        options = self.parameters.get("options")
        chosen = [*sorted(self.settings.items()), *([("options", options)] if options else [])]
        digest = f"#{sha256(repr(chosen).encode()).hexdigest()[:16]}" if chosen else ""
        return f"postgresql://{login}{hosts}/{quote(self.database or '', safe='')}{digest}"

    @property
    def connect_seconds(self) -> float | None:
        """``connect_timeout``, or None if it is not given, or not limited."""
        return float(self.parameters.get("connect_timeout", 0)) or None

    def for_libpq(self) -> dict[str, str]:
        """Return the parameters for psycopg and psycopg2."""
        hosts, ports = [host for host, _ in self.hosts], [str(port) for _, port in self.hosts]
        options = [self.parameters.get("options", "")]
        options += [f"-c {name}={_escaped(value)}" for name, value in self.settings.items()]
        found: dict[str, str | None] = {
            **self.parameters,
            "host": ",".join(hosts),
            "port": ",".join(ports),
            "user": self.user,
            "password": self.password,
            "dbname": self.database,
            "options": " ".join(filter(None, options)),
        }
        return KEEPALIVE | ENCODING | {name: value for name, value in found.items() if value}

    def for_asyncpg(self) -> dict[str, Any]:
        """Return the arguments of `asyncpg.connect`, without hosts and server settings."""
        tls = {name: self.parameters[name] for name in TLS_PARAMETERS & self.parameters.keys()}
        return {
            # asyncpg reads these from a URL only.
            "dsn": f"postgresql://?{urlencode(tls, quote_via=quote)}" if tls else None,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "passfile": self.parameters.get("passfile"),
            "target_session_attrs": self.parameters.get("target_session_attrs"),
        }

    def server_settings(self) -> dict[str, str]:
        """Return what asyncpg sends to the server when it connects."""
        kept = ("application_name", "options")
        named = {name: self.parameters[name] for name in kept if name in self.parameters}
        return {**named, **self.settings}


def parse(url: str) -> PostgresUrl:
    """Return the parts of *url*.

    Raises:
        BadPostgresUrl: It is malformed, or a parameter is not supported.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadPostgresUrl(_HINT) from None
    place, named = _parameters(parts)
    # libpq ends a text there: another database would be opened, or a password taken from a file.
    has_nul = "\0" in unquote(url)
    is_bad = has_nul or parts.scheme not in SCHEMES or parts.fragment or parts.netloc.count("@") > 1
    # A password with `@` and `/`: what is between them would be the host.
    if is_bad or "@" in parts.path or url.split() != [url]:
        raise BadPostgresUrl(_HINT)
    login, _, netloc = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    hosts = _hosts(place.get("host") or netloc, place.get("port", ""))
    parameters = {name: value for name, value in named.items() if name in SUPPORTED}
    parameters.pop("client_encoding", None)  # it is always UTF-8
    if len(hosts) > 1:
        parameters.setdefault("target_session_attrs", "read-write")
    return PostgresUrl(
        hosts=hosts,
        user=place.get("user") or unquote(user) or None,
        password=place.get("password") or unquote(password) or None,
        database=unquote(parts.path.removeprefix("/")) or None,
        parameters=parameters,
        settings={name: value for name, value in named.items() if name not in SUPPORTED},
    )


def _parameters(parts: SplitResult) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters that name a place or a credential, and the others."""
    # In libpq, a plus sign is no space.
    query = parts.query.replace("+", "%2B")
    try:
        found = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise BadPostgresUrl(_HINT) from None
    for name, value in found.items():
        _check_parameter(name, value)
    place = {name: found.pop(name) for name in _PLACES if name in found}
    return place, {name: value for name, value in found.items() if value}


def _check_parameter(name: str, value: str) -> None:
    if name not in SUPPORTED and name in _names_of_libpq():
        raise BadPostgresUrl(
            f"has the parameter {name}, which is not supported: use one of "
            f"{', '.join(sorted(SUPPORTED))}, or a setting of the server"
        )
    values = _VALUES.get(name)
    if values is not None and value.lower() not in values:
        raise BadPostgresUrl(
            f"has a value of {name} that is not supported: it can be {', '.join(values)}"
        )
    if name == "connect_timeout" and not value.isdecimal():
        raise BadPostgresUrl("has a value of connect_timeout that is not a number of seconds")
    if name == "sslrootcert" and value == "system":
        raise BadPostgresUrl(
            "has sslrootcert=system, which is not supported: set the path of the file with the "
            "certificates, such as /etc/ssl/certs/ca-certificates.crt"
        )


@cache
def _names_of_libpq() -> frozenset[str]:
    """Return the parameters that libpq knows; any other one is a setting of the server."""
    from psycopg import pq  # noqa: PLC0415 - few commands need it, and it takes a while

    return frozenset(one.keyword.decode() for one in pq.Conninfo.get_defaults())


def _hosts(text: str, ports: str) -> tuple[tuple[str, int], ...]:
    if not text and not ports:
        return ()
    given = [_host_and_port(one) for one in text.split(",")]
    numbers = [_port(one) for one in ports.split(",")]
    if len(numbers) == 1:
        numbers *= len(given)
    if len(numbers) != len(given):
        raise BadPostgresUrl(
            f"has {len(numbers)} ports for {len(given)} hosts: set one, or one for each host"
        )
    pairs = zip(given, numbers, strict=True)
    return tuple((host or "localhost", own or port) for (host, own), port in pairs)


def _host_and_port(text: str) -> tuple[str, int | None]:
    """Return a host and its own port. An IPv6 address with a port is in square brackets."""
    if _is_ipv6(text):
        return text, None
    host, port = text, ""
    if not text.endswith("]"):
        host, _, port = text.partition(":") if "]" not in text else text.rpartition(":")
    if host.startswith("["):
        host = host.removeprefix("[").removesuffix("]")
        if not _is_ipv6(host):
            raise BadPostgresUrl(_HINT)
    return unquote(host), _port(port) if port else None


def _is_ipv6(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).version == 6  # noqa: PLR2004 - the name of the protocol
    except ValueError:
        return False


def _port(text: str) -> int:
    if not text:
        return PORT_DEFAULT
    if not text.isdecimal() or not 0 < int(text[:6]) <= PORT_MAX:
        raise BadPostgresUrl(_HINT)
    return int(text)


def _one_spelling(host: str) -> str:
    if host.startswith("/"):
        return host
    return "localhost" if host in _LOOPBACK else host.lower()


def _shown_host(host: str, port: int) -> str:
    name = f"[{host}]" if _is_ipv6(host) else quote(host, safe="")
    return name if port == PORT_DEFAULT else f"{name}:{port}"


def _escaped(value: str) -> str:
    """Return a value for the command line of a server process."""
    return value.replace("\\", "\\\\").replace(" ", "\\ ")
