"""TLS in front of a PostgreSQL server that speaks none, and the certificates for it."""

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tenantry.kit.clock import utc_now

# Source: PostgreSQL documentation, "Message Formats", SSLRequest.
SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
BYTES_MAX = 65_536


@dataclass(frozen=True)
class Certificates:
    """A certificate authority, and what it has signed for a host.

    Attributes:
        root: The file of the authority's certificate.
        server: The file of the server's certificate and key.
    """

    root: Path
    server: Path


def certificates(folder: Path, address: str) -> Certificates:
    """Return new certificates, of a server at the IP *address*."""
    folder.mkdir()
    root_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    root = (
        _builder(root_name, root_name, root_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test server")])
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
    server = (
        _builder(name, root_name, key.public_key())
        .add_extension(names, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    made = Certificates(folder / "root.crt", folder / "server.pem")
    encoding = serialization.Encoding.PEM
    made.root.write_bytes(root.public_bytes(encoding))
    made.server.write_bytes(
        server.public_bytes(encoding)
        + key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return made


@asynccontextmanager
async def tls_front(url: str, server: Path) -> AsyncIterator[str]:
    """Yield the URL of the server at *url*, through TLS with the certificate in *server*."""
    behind = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server)
    serving: set[asyncio.Task[None]] = set()

    async def serve(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            # A client without TLS is disconnected.
            if await read.readexactly(len(SSL_REQUEST)) == SSL_REQUEST:
                write.write(b"S")
                await write.start_tls(context)
                there = await asyncio.open_connection(behind.hostname, behind.port)
                await asyncio.gather(_forward(read, there[1]), _forward(there[0], write))
        write.transport.abort()

    def begin(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(read, write))
        serving.add(task)
        task.add_done_callback(serving.discard)

    listening = await asyncio.start_server(begin, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    user = behind.netloc.rpartition("@")[0]
    try:
        yield urlunsplit(behind._replace(netloc=f"{user}@127.0.0.1:{port}"))
    finally:
        listening.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def _forward(read: asyncio.StreamReader, write: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await read.read(BYTES_MAX):
            write.write(data)
    write.transport.abort()


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = utc_now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )
