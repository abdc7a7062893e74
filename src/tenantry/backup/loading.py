"""Fill a new database from an archive, and compare it with what the archive has saved."""

from collections.abc import Iterator
from dataclasses import dataclass

from tenantry.backup import dumps
from tenantry.backup.archive import ArchiveReader, Header
from tenantry.backup.copying import Copying
from tenantry.backup.dumps import POSTGRESQL, Contents
from tenantry.catalog.job_queue import JobOptions
from tenantry.catalog.records import TenantRecord
from tenantry.db.copying.survey import Survey
from tenantry.db.postgres.tools import PostgresTools
from tenantry.db.servers import Server
from tenantry.fleet.lifecycle import UnknownServer
from tenantry.kit.errors import Conflict, Invalid
from tenantry.kit.ids import new_id
from tenantry.kit.stopping import run_in_thread
from tenantry.migration.errors import explain
from tenantry.migration.run_scripts import RunScripts
from tenantry.settings import SERVER_DEFAULT
from tenantry.tenant import sessions
from tenantry.work.progress import Progress


@dataclass(frozen=True, slots=True)
class Revised:
    """The revision of a filled database.

    Attributes:
        revision: Where it is.
        behind: Why it could not be migrated to the head; None if it is there.
    """

    revision: str
    behind: str | None


class WrongEngine(Conflict):
    """The data are of the other engine than the tenant server; the message has both."""


class RevisionsNotConfigured(Conflict):
    """The archive has revisions of a project, and this installation has none; it is named."""


class NotATenant(Invalid):
    """The archive is of the catalog, and not of a tenant."""


async def tenant_header(copying: Copying, options: JobOptions) -> Header:
    """Return the header of the archive that a queued job restores.

    Raises:
        NotATenant: The archive is of the catalog.
        ArchiveNotFound, ArchiveForeign, ArchiveDamaged, ArchiveNewer: It is not used.
        S3Missing, S3Unavailable: The target cannot be read.
    """
    header = await copying.archives.header(options.archive or "")
    if header.kind != "tenant":
        raise NotATenant
    return header


async def read_record(reader: ArchiveReader) -> TenantRecord:
    """Return the catalog rows in an archive of a tenant.

    Raises:
        NotATenant: It is of the catalog.
        ArchiveDamaged: They cannot be read.
    """
    if reader.header.kind != "tenant":
        raise NotATenant
    return await run_in_thread(lambda _stop: reader.record(TenantRecord))


def check_revisions(copying: Copying, header: Header) -> None:
    """Check that the service has revisions of a project, if the archive of a tenant has some.

    Without them, the tenant would be served at Tenantry's own revision, and not be migrated.

    Raises:
        RevisionsNotConfigured: It has none.
        BadStream: They cannot be read.
    """
    user = (header.revision or "").partition("/")[2]
    if user and copying.lifecycle.streams().user is None:
        raise RevisionsNotConfigured(
            f"The archive is at the revision {user} of a project, and TENANTRY_TENANT_MIGRATIONS "
            "is not set: set it to the folder of its revisions."
        )


def check_server(copying: Copying, server_name: str | None) -> None:
    """Check that there is a tenant server of this name, unless it is None.

    Raises:
        UnknownServer: There is none.
    """
    if server_name is not None and server_name not in copying.databases.server_names:
        raise UnknownServer


def server_of_engine(copying: Copying, engine: str, wanted: str | None) -> str:
    """Return the name of a tenant server for data of an engine: *wanted*, if that is not None.

    Else it is the default server, or another one: the first that is of the engine.

    Raises:
        UnknownServer: There is no server with the name *wanted*.
        WrongEngine: The server, or every server, is of the other engine.
    """
    names = copying.databases.server_names
    check_server(copying, wanted)
    candidates = [wanted] if wanted else [SERVER_DEFAULT, *sorted(names)]
    for name in candidates:
        if name in names and engine_of(copying.databases.server(name)) == engine:
            return name
    raise WrongEngine(
        f"The data are of {engine}, and "
        f"{f'the tenant server {wanted}' if wanted else 'every tenant server'} is of the other "
        "engine: name a server of that engine (--server)."
    )


async def fill(
    copying: Copying, reader: ArchiveReader, server: Server, database_name: str, progress: Progress
) -> None:
    """Create a database on a tenant server and fill it from an archive.

    Raises:
        ArchiveDamaged, CopyDiffers, RoleTooPowerful: The archive is not used.
        ToolMissing, ToolTooOld, ToolFailed: See `db.postgres.tools`.
        DatabaseUnavailable: The server cannot be reached.
        OSError: The disk is full.
    """
    url = server.url(database_name)
    await create_empty(server, database_name)
    if reader.is_foreign:
        await dumps.check_role(url)
    await load(url, reader, _counted(reader.chunks(), progress), tools=copying.tools)


async def load(
    url: str, reader: ArchiveReader, chunks: Iterator[bytes], *, tools: PostgresTools
) -> None:
    """Fill an empty database with the *chunks* of an archive, and compare it with the manifest."""
    await dumps.load(url, chunks, tools=tools)
    manifest = reader.manifest
    expected = Contents(
        Survey(manifest.row_counts, manifest.schema_fingerprint), manifest.search_path
    )
    await dumps.check_loaded(url, expected, is_foreign=reader.is_foreign)


async def create_empty(server: Server, database_name: str) -> None:
    """Create the empty database that a copy is written to; a SQLite file is created by the copy."""
    if engine_of(server) == POSTGRESQL:
        await server.create(database_name)


async def bring_to_head(copying: Copying, server: Server, database_name: str) -> Revised:
    """End every session in a filled database, to which the catalog does not refer yet; migrate it.

    Raises:
        Exception: Its revision cannot be read: it is no tenant database.
    """
    async with server.filling(database_name) as session:
        await sessions.end_every(session)
    lifecycle, url = copying.lifecycle, server.url(database_name)
    streams = lifecycle.streams()
    revision = (await lifecycle.migrator.read_state(url, streams)).revision
    try:
        migrated = await lifecycle.migrator.migrate(url, RunScripts(streams), run_id=new_id())
    except Exception as error:  # noqa: BLE001 - the data are complete, at their old revision
        return Revised(str(revision), explain(error))
    if migrated.error is not None:
        return Revised(str(migrated.revision), explain(migrated.error))
    return Revised(str(migrated.revision), None)


def engine_of(server: Server) -> str:
    """Return the engine of the databases of a tenant server."""
    return dumps.POSTGRESQL if server.folder is None else dumps.SQLITE


def _counted(chunks: Iterator[bytes], progress: Progress) -> Iterator[bytes]:
    for data in chunks:
        progress.add(len(data))
        yield data
