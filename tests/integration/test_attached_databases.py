"""Attached databases of a service: they follow the operator's revisions, beside its tenants."""

import asyncio
import base64
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import httpx
import pytest
from pydantic import SecretStr

from tenantry.access import admins, credentials
from tenantry.app import app_over
from tenantry.backup import cloning, creating
from tenantry.backup.recovery import every_tenant, tenants_without_database
from tenantry.backup.targets import FolderTarget
from tenantry.catalog import job_queue, runs, tenants
from tenantry.catalog.attached import BadList, NotAFleet, NotAttached, reseal
from tenantry.catalog.runs import MigrationRun
from tenantry.catalog.tenants import DatabaseInUse, NotServed, Tenant
from tenantry.catalog.where import NoTenantMatches
from tenantry.fleet.attached import FleetOptions, open_fleet
from tenantry.fleet.attaching import NotAttachable, OtherDatabase
from tenantry.fleet.database_list import of_urls
from tenantry.fleet.deletion import DetachInstead
from tenantry.fleet.drift import DriftReport
from tenantry.fleet.labelling import label
from tenantry.fleet.run_options import EVERY_ACTIVE_TENANT, RunOptions
from tenantry.fleet.status import schema_status, tenant_map
from tenantry.kit.context import system_context
from tenantry.kit.ids import new_id
from tenantry.kit.secrets import mint
from tenantry.migration.streams import NothingToFollow
from tenantry.services import Services, open_services
from tenantry.settings import Settings
from tenantry.tenant import links
from tenantry.tenant.databases import ELSEWHERE
from tenantry.tenant.links import LinkRefused
from tenantry.work.progress import Progress
from testkit import raw_sql
from testkit.postgres import create_database, database_url
from testkit.programs import free_port
from testkit.revisions import AlembicFolder
from tests.conftest import HEAD, client_of, provision
from tests.conftest import PASSWORD as ADMIN_PASSWORD
from tests.integration.engines import on_sqlite
from tests.integration.gates import Gate
from tests.integration.programs import running

PASSWORD = "not-to-be-seen"
ADMIN = "ada@example.com"
DATABASES = "/api/admin/attached-databases"
NewDatabase = Callable[[], str]
LOG = "tenantry_migration_log"


def add_table(folder: AlembicFolder, name: str) -> None:
    """Add a revision that creates a table, and drops it when it is undone."""
    table = name.partition("_")[2]
    body = f"op.create_table({table!r}, sa.Column('id', sa.Integer, primary_key=True))"
    folder.add(name, body, undo=f"op.drop_table({table!r})")


@pytest.fixture(name="ours")
def _ours(settings: Settings, folder: AlembicFolder) -> Settings:
    """Settings of a service with one revision of the user, which changes nothing."""
    return settings.model_copy(update={"tenant_migrations": folder.begin()})


def with_password(url: str) -> str:
    """Return a URL with a password, which the server does not ask for; a file has none."""
    return url.replace("postgres@", f"postgres:{PASSWORD}@")


def rotated(settings: Settings) -> tuple[Settings, Settings]:
    """Return settings with a secret key, and those that replace it by another one."""
    old = settings.model_copy(update={"secret_key": SecretStr("the first secret key of a test")})
    second = SecretStr("the second secret key of a test")
    return old, old.model_copy(update={"secret_key": second, "secret_key_old": old.secret_key})


async def attach(services: Services, url: str, name: str = "legacy", **labels: str) -> Tenant:
    return await services.attaching.attach(
        system_context("ada"), name=name, url=with_password(url), labels=labels
    )


async def migrate(
    services: Services, *, plan_id: UUID | None = None, **options: object
) -> MigrationRun:
    chosen = RunOptions(**options) if options else EVERY_ACTIVE_TENANT  # type: ignore[arg-type]
    run_id = await services.fleet.plan(
        system_context("ada"), triggered_by="ada", options=chosen, plan_id=plan_id
    )
    return await services.fleet.wait(run_id)


async def outcomes(services: Services, run: MigrationRun) -> list[tuple[str, str | None]]:
    found = await runs.ended(services.catalog, run.id)
    return sorted((one.tenant_name, one.applied or one.error) for one in found)


def version(url: str) -> list[tuple[str, ...]]:
    return raw_sql.rows(url, "SELECT version_num FROM alembic_version")


class TestOneRun:
    async def test_migrates_tenants_and_attached_databases_each_by_what_is_its_own(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        legacy = new_database()
        async with open_services(ours) as services:
            await provision(services, "acme")
            attached = await attach(services, legacy)
            add_table(folder, "u1_note")
            run = await migrate(services)

            assert attached.schema_revision == f"{HEAD}/"
            assert await outcomes(services, run) == [
                ("acme", "u1_note"),
                ("legacy", "begin,u1_note"),
            ]
            found = await tenants.get(services.catalog, attached.id)
            assert found.schema_revision == run.head == f"{HEAD}/u1"
        assert version(legacy) == [("u1",)]
        assert raw_sql.tables(legacy) == {"alembic_version", "note", LOG}

    async def test_has_nothing_to_do_again_and_everything_is_at_the_head(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        async with open_services(ours) as services:
            await provision(services, "acme")
            await attach(services, new_database())
            add_table(folder, "u1_note")
            before = await schema_status(services.catalog, services.streams())
            await migrate(services)
            again = await migrate(services)
            status = await schema_status(services.catalog, services.streams())
            places = await tenant_map(services.catalog, services.streams(), after=None)
            behind = await migrate(services, only_behind=True)

            assert (before.behind, before.unknown) == (2, 0)
            assert await outcomes(services, again) == [("acme", None), ("legacy", None)]
            assert (status.up_to_date, status.total) == (2, 2)
            assert [one.place for one in places] == ["head", "head"]
            assert behind.total_count == 0

    async def test_is_planned_as_it_runs_and_a_database_that_moved_since_is_refused(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        legacy, ctx = new_database(), system_context("ada")
        async with open_services(ours) as services:
            await provision(services, "acme")
            await attach(services, legacy)
            await migrate(services)
            add_table(folder, "u1_note")
            add_table(folder, "u2_mark")
            rehearsed = await services.fleet.preview(ctx, EVERY_ACTIVE_TENANT, rehearse=True)
            assert rehearsed.plan is not None
            run = await migrate(services, plan_id=rehearsed.plan.id)

            assert [one.pending_migrations for one in rehearsed.details] == ["u1_note,u2_mark"] * 2
            assert (run.success_count, run.failed_count) == (2, 0)
        assert version(legacy) == [("u2",)]

    async def test_is_undone_in_both(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        legacy = new_database()
        async with open_services(ours) as services:
            await provision(services, "acme")
            await attach(services, legacy)
            await migrate(services)
            before = raw_sql.dump(legacy)
            add_table(folder, "u1_note")
            run = await migrate(services)
            preview = await services.fleet.preview(
                system_context("ada"), RunOptions(undoes=run.id), rehearse=True
            )
            undo = await migrate(services, undoes=run.id)

            assert [one.pending_migrations for one in preview.details] == ["u1_note"] * 2
            assert await outcomes(services, undo) == [("acme", "u1_note"), ("legacy", "u1_note")]
        assert raw_sql.dump(legacy) == before

    async def test_selects_attached_databases_by_their_labels_and_leaves_out_suspended_ones(
        self, ours: Settings, new_database: NewDatabase
    ):
        ctx = system_context("ada")
        async with open_services(ours) as services:
            await provision(services, "acme")
            one = await attach(services, new_database(), "one", ring="first")
            two = await attach(services, new_database(), "two")
            await label(ctx, services.catalog, two.id, ["ring=first"])
            chosen = await migrate(services, where="ring = first")
            await services.lifecycle.update(ctx, one, is_active=False)
            fewer = await migrate(services, where="ring = first")
            active = await services.lifecycle.update(
                ctx, await tenants.get(services.catalog, one.id), is_active=True
            )

            assert (chosen.success_count, fewer.total_count) == (2, 1)
            assert (active.is_active, active.schema_revision) == (True, f"{HEAD}/begin")

    @pytest.mark.slow
    async def test_goes_on_after_a_kill_and_each_revision_is_applied_once(
        self, ours: Settings, folder: AlembicFolder, gate: Gate, new_database: NewDatabase
    ):
        legacy = new_database()
        async with open_services(ours) as services:
            await attach(services, legacy)
        add_table(folder, "f1_first")
        gate.build()
        async with running("migrate", ours) as program:
            run_id = UUID(await program.line())
            await gate.reached(1)
            program.signal(signal.SIGKILL)
        gate.open()
        async with open_services(ours) as services:
            await services.fleet.wait(run_id)
            again = await migrate(services)

            assert await outcomes(services, again) == [("legacy", None)]
        logged = raw_sql.rows(legacy, f"SELECT revision FROM {LOG} ORDER BY position")
        assert logged == [("begin",), ("f1_first",), ("g1_gate",)]


class TestBesideTenants:
    async def test_is_in_a_run_that_is_ordered_by_size_but_is_not_measured(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        async with open_services(ours) as services:
            await provision(services, "acme")
            await attach(services, new_database())
            add_table(folder, "u1_note")

            run = await migrate(services, order="size", waves=(1, "100%"))

            assert [name for name, _ in await outcomes(services, run)] == ["acme", "legacy"]
            assert run.failed_count == 0

    async def test_is_no_tenant_without_a_backup(self, ours: Settings, new_database: NewDatabase):
        async with open_services(ours) as services:
            await provision(services, "acme")
            await attach(services, new_database())

            found = await job_queue.oldest_backup(services.catalog)

            assert found is not None
            assert (found.tenant_name, found.without_count) == ("acme", 1)

    async def test_that_where_selects_alone_is_refused_by_what_leaves_it_out(
        self, ours: Settings, new_database: NewDatabase
    ):
        async with open_services(ours) as services:
            await provision(services, "acme")
            await attach(services, new_database())
            ctx, queue, alone = system_context("ada"), services.queue, "name=legacy"

            for some in (
                queue.back_up(ctx, None, where=alone),
                queue.move_all(ctx, from_server=None, to_server="far", where=alone),
                every_tenant(services.copying, where=alone),
            ):
                with pytest.raises(NoTenantMatches, match="nothing that is served"):
                    await some

            assert await queue.back_up(ctx, None, where=f"{alone} or name=acme") == 1

    async def test_has_no_links_and_guesses_are_counted(
        self, ours: Settings, new_database: NewDatabase
    ):
        """A secret can be made up for the id of any tenant: its checksum is no signature."""
        async with open_services(ours) as services:
            attached = await attach(services, new_database())
            named = base64.urlsafe_b64encode(attached.id.bytes).decode().rstrip("=")
            secret = mint(links.INVITATION_KIND + named)
            ctx = system_context("stranger")
            for _ in range(2):
                with pytest.raises(LinkRefused):
                    await links.find(
                        ctx, services.catalog, services.databases, services.throttle, secret=secret
                    )


class TestAttach:
    async def test_needs_revisions_of_the_operator(
        self, settings: Settings, new_database: NewDatabase
    ):
        async with open_services(settings) as services:
            with pytest.raises(NothingToFollow, match="tenantry fleet"):
                await attach(services, new_database())

    async def test_refuses_what_a_run_would_migrate_wrongly(
        self, ours: Settings, new_database: NewDatabase
    ):
        unstamped, foreign = new_database(), new_database()
        raw_sql.run(unstamped, "CREATE TABLE own (id INTEGER)")
        raw_sql.run(
            foreign,
            "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)",
            "INSERT INTO alembic_version VALUES ('another')",
        )
        async with open_services(ours) as services:
            acme = (await provision(services, "acme")).tenant
            server = services.databases.server(acme.server_name)
            for url, words in (
                (unstamped, "alembic stamp"),
                (foreign, "tenantry fleet"),
                (server.url(acme.database_name), "of a Tenantry service"),
                (new_database() + "x", "cannot be read"),
            ):
                with pytest.raises(NotAttachable, match=words) as refused:
                    await attach(services, url)
                assert PASSWORD not in str(refused.value)
            legacy = new_database()
            await attach(services, legacy)
            with pytest.raises(DatabaseInUse):
                await attach(services, legacy, "again")

    async def test_stores_no_password_in_plain_text_and_shows_none(
        self, ours: Settings, new_database: NewDatabase, capfd: pytest.CaptureFixture[str]
    ):
        async with open_services(ours) as services:
            attached = await attach(services, new_database())
            await migrate(services)
            place = await services.databases.place_of(attached)
            assert PASSWORD not in repr(attached)
            assert place.is_attached
            is_file = place.url.startswith("sqlite:")
            assert is_file or PASSWORD in place.url
            assert (attached.server_name == ELSEWHERE) is is_file
        stored = str(raw_sql.dump(ours.catalog))
        assert "legacy" in stored
        assert PASSWORD not in stored
        assert PASSWORD not in "".join(capfd.readouterr())

    async def test_a_rotation_of_the_secret_key_keeps_the_url(
        self, ours: Settings, new_database: NewDatabase
    ):
        old, new = rotated(ours)
        async with open_services(old) as services:
            attached = await attach(services, new_database())
            url = (await services.databases.place_of(attached)).url
        async with open_services(new) as services:
            assert await services.signing_keys.reseal(system_context("ada")) == 2
        async with open_services(new.model_copy(update={"secret_key_old": SecretStr("")})) as last:
            assert (await last.databases.place_of(attached)).url == url

    async def test_a_changed_password_replaces_the_url_of_the_same_database_alone(
        self, ours: Settings, new_database: NewDatabase
    ):
        url, ctx = new_database(), system_context("ada")
        changed = with_password(url).replace(PASSWORD, "new-and-secret")
        async with open_services(ours) as services:
            attached, acme = await attach(services, url), (await provision(services, "acme")).tenant
            replace = services.attaching.replace_url
            await replace(ctx, attached, changed)
            for other in (new_database(), f"{url.rpartition('/')[0]}/missing"):
                with pytest.raises(OtherDatabase):
                    await replace(ctx, attached, with_password(other))
            with pytest.raises(NotAttached):
                await replace(ctx, acme, url)

            assert (await services.databases.place_of(attached)).url == changed
            run = await migrate(services)
            assert ("legacy", "begin") in await outcomes(services, run)
        stored = str(raw_sql.dump(ours.catalog))
        assert "tenant.replace-url" in stored
        assert "new-and-secret" not in stored

    async def test_a_url_of_a_database_that_was_detached_replaces_none(
        self, ours: Settings, new_database: NewDatabase
    ):
        url, ctx = with_password(new_database()), system_context("ada")
        async with open_services(ours) as services:
            attached = await attach(services, url)
            await services.attaching.detach(ctx, attached)

            with pytest.raises(NotAttached):
                await services.attaching.replace_url(ctx, attached, url)

        assert "tenant.replace-url" not in str(raw_sql.dump(ours.catalog))

    async def test_a_rotation_keeps_a_url_that_is_replaced_at_the_same_time(
        self, ours: Settings, new_database: NewDatabase
    ):
        old, new = rotated(ours)
        ctx = system_context("ada")
        async with open_services(old) as services:
            attached = await attach(services, new_database())
        async with open_services(new) as services:
            seal = services.attaching.seal
            url = (await services.databases.place_of(attached)).url
            changed = url.replace(PASSWORD, "new-and-secret")
            sealed = seal.close(changed.encode(), attached.id.bytes)
            async with services.catalog.change(ctx, "test", attached.id) as session:
                await reseal(session, {attached.id: sealed})
                rotation = asyncio.create_task(services.signing_keys.reseal(ctx))
                # It waits for the change to end; if it did not, it would have ended by now.
                await asyncio.wait([rotation], timeout=1)
            await rotation
            assert (await services.databases.place_of(attached)).url == changed

    @on_sqlite
    async def test_a_url_that_cannot_be_used_replaces_none(
        self, ours: Settings, new_database: NewDatabase
    ):
        url = new_database()
        async with open_services(ours) as services:
            attached = await attach(services, url)
            await asyncio.to_thread(Path(url.removeprefix("sqlite:///")).unlink)

            with pytest.raises(NotAttachable, match="cannot be read"):
                await services.attaching.replace_url(system_context("ada"), attached, url)

        assert "tenant.replace-url" not in str(raw_sql.dump(ours.catalog))

    @on_sqlite
    async def test_takes_a_database_of_the_other_engine(
        self, ours: Settings, folder: AlembicFolder, postgres_url: str
    ):
        legacy = create_database(postgres_url, "test_attached_elsewhere")
        async with open_services(ours) as services:
            await provision(services, "acme")
            attached = await attach(services, legacy)
            add_table(folder, "u1_note")
            run = await migrate(services)
            report = DriftReport()
            await services.drift.check(system_context("ada"), report)

            assert attached.server_name == ELSEWHERE
            assert (run.success_count, run.failed_count) == (2, 0)
            assert (report.compared, report.unreadable_count) == (1, 1)
            assert "TENANTRY_TENANT_SERVERS" in report.unreadable[0][1]
        assert version(legacy) == [("u1",)]

    @on_sqlite
    async def test_takes_neither_templates_nor_the_database_of_the_server(
        self, ours: Settings, postgres_url: str
    ):
        async with open_services(ours) as services:
            for name, error, words in (
                ("template0", BadList, "copies new databases"),
                ("template1", BadList, "copies new databases"),
                ("postgres", NotAttachable, "or is postgres, and no revision"),
            ):
                with pytest.raises(error, match=words):
                    await attach(services, database_url(postgres_url, name))

    @on_sqlite
    async def test_is_recognised_under_another_spelling_and_shown_without_its_parameters(
        self, ours: Settings, postgres_url: str
    ):
        url = create_database(postgres_url, f"test_{new_id().hex}")
        async with open_services(ours) as services:
            attached = await attach(services, f"{url}?options=-cx.token%3D{PASSWORD}")
            plain = await attach(services, url, "plain")
            for again in (f"{url}?application_name=other", url.replace("127.0.0.1", "localhost")):
                with pytest.raises(DatabaseInUse):
                    await attach(services, again, "again")

            assert PASSWORD not in attached.database_name
            assert attached.database_name.partition("#")[0] == plain.database_name

    @on_sqlite
    async def test_in_a_file_is_recognised_under_each_of_its_paths(
        self, ours: Settings, tmp_path: Path
    ):
        (tmp_path / "sub").mkdir()
        link = tmp_path / "link.db"
        link.symlink_to(tmp_path / "legacy.db")
        (tmp_path / "legacy.db").touch()
        async with open_services(ours) as services:
            attached = await attach(services, f"sqlite:///{link}")
            for again in (link, tmp_path / "legacy.db", tmp_path / "sub" / ".." / "legacy.db"):
                with pytest.raises(DatabaseInUse):
                    await attach(services, f"sqlite:///{again}", "again")

        assert attached.database_name == f"sqlite:///{(tmp_path / 'legacy.db').resolve()}"

    @on_sqlite
    async def test_is_recognised_as_an_older_release_has_stored_it(
        self, ours: Settings, postgres_url: str
    ):
        url = create_database(postgres_url, f"test_{new_id().hex}")
        chosen = f"{url}?options=-cx.token%3D1"
        async with open_services(ours) as services:
            await attach(services, url)
            await attach(services, chosen, "chosen")
        raw_sql.run(
            ours.catalog,
            "UPDATE tenant SET database_name = replace(database_name, 'localhost', '127.0.0.1')",
        )
        stored = raw_sql.rows(ours.catalog, "SELECT database_name FROM tenant")
        assert all("@127.0.0.1:" in one for (one,) in stored)

        async with open_services(ours) as services:
            for again in (url, chosen):
                with pytest.raises(DatabaseInUse):
                    await attach(services, again, "again")

    async def test_a_fleet_does_not_take_the_catalog_for_its_state(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        legacy = new_database()
        async with open_services(ours) as services:
            await attach(services, legacy)
        options = FleetOptions(state=ours.catalog, migrations=folder.path)
        with pytest.raises(NotAFleet):
            async with open_fleet(options, system_context("ada"), of_urls([legacy])):
                pass
        async with open_services(ours) as services:
            assert (await migrate(services)).success_count == 1


class TestDrift:
    async def test_is_found_in_an_attached_database(
        self, ours: Settings, folder: AlembicFolder, new_database: NewDatabase
    ):
        legacy, report, repaired = new_database(), DriftReport(), DriftReport()
        async with open_services(ours) as services:
            await provision(services, "acme")
            attached = await attach(services, legacy)
            add_table(folder, "u1_note")
            await migrate(services)
            await services.drift.check(system_context("ada"), repaired)
            raw_sql.run(legacy, "CREATE TABLE by_hand (id INTEGER)")
            await services.drift.check(system_context("ada"), report)
            found = await tenants.get(services.catalog, attached.id)

            assert (repaired.compared, repaired.drifted) == (2, 0), repaired.unreadable
            assert (report.compared, report.drifted) == (2, 1)
            assert found.drifted_at is not None


class TestIsNotServed:
    async def test_has_no_keys_and_is_not_opened_copied_or_deleted(
        self, ours: Settings, tmp_path: Path, new_database: NewDatabase
    ):
        legacy, ctx = new_database(), system_context("ada")
        raw_sql.run(legacy, "CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)")
        before = raw_sql.dump(legacy)
        target = FolderTarget(tmp_path / "archives")
        async with open_services(ours) as services:
            acme = (await provision(services, "acme")).tenant
            attached = await attach(services, legacy)
            progress = Progress()
            refused: Sequence[Callable[[], object]] = (
                lambda: services.databases.open(attached, writes=False),
                lambda: credentials.issue_key(ctx, services.catalog, attached.id, expires_at=None),
                lambda: creating.back_up(
                    ctx, services.copying, attached, target, progress=progress
                ),
                lambda: cloning.clone(
                    ctx, services.copying, attached, name="copy", progress=progress
                ),
                lambda: services.queue.add(ctx, "move", tenant=attached, server_name="default"),
                lambda: services.lifecycle.update(ctx, attached, module_keys=[]),
            )
            for call in refused:
                with pytest.raises(NotServed):
                    await call()  # type: ignore[misc]
            with pytest.raises(DetachInstead):
                await services.deletion.delete(ctx, attached, name="legacy")
            with pytest.raises(NotAttached):
                await services.attaching.detach(ctx, acme)
            assert await services.queue.back_up(ctx, None) == 2
            assert [one.name for one in await every_tenant(services.copying)] == ["acme"]
            assert await tenants_without_database(services.copying) == []
            await services.attaching.detach(ctx, attached)
            run = await migrate(services)

            assert await outcomes(services, run) == [("acme", None)]
            assert (await attach(services, legacy)).name == "legacy"
        assert raw_sql.dump(legacy) == before


class TestOverHttp:
    async def test_an_admin_attaches_replaces_the_password_and_detaches(
        self, ours: Settings, postgres_url: str
    ):
        url = with_password(create_database(postgres_url, f"test_{new_id().hex}"))
        async with open_services(ours) as services, admin_of(services) as client:
            made = await client.post(
                DATABASES, json={"name": "legacy", "url": url, "labels": {"ring": "last"}}
            )
            database = f"{DATABASES}/{made.json()['data']['id']}"
            twice = await client.post(DATABASES, json={"name": "again", "url": url})
            changed = url.replace(PASSWORD, "new-and-secret")
            replaced = await client.post(f"{database}/replace-url", json={"url": changed})
            other = await client.post(f"{database}/replace-url", json={"url": f"{url}_other"})
            run = await migrate(services)
            applied = await outcomes(services, run)
            detached = await client.delete(database)
            gone = await client.delete(database)
            log = await client.get("/api/admin/audit-log")

        assert made.status_code == 201, made.text
        assert made.json()["data"]["isAttached"] is True
        assert made.json()["data"]["labels"] == {"ring": "last"}
        assert (replaced.status_code, detached.status_code) == (200, 200), replaced.text
        assert [one.headers["x-error-code"] for one in (twice, other, gone)] == [
            "database_in_use",
            "other_database",
            "tenant_not_found",
        ]
        assert applied == [("legacy", "begin")]
        actions = [(one["action"], one["actor"]) for one in log.json()["data"]["items"]]
        for action in ("tenant.attach", "tenant.replace-url", "tenant.detach"):
            assert (action, ADMIN) in actions
        said = "".join(one.text for one in (made, twice, replaced, other, detached, log))
        assert not any(one in said for one in (PASSWORD, "new-and-secret"))

    async def test_a_url_uses_nothing_of_the_machine_of_the_server(
        self, ours: Settings, tmp_path: Path
    ):
        empty = tmp_path / "lock"
        empty.touch()
        async with open_services(ours) as services, admin_of(services) as client:
            answers = [
                await client.post(DATABASES, json={"name": "legacy", "url": url})
                for url in (
                    f"sqlite:///{empty}",
                    "postgresql://ada:word@db.example/acme?passfile=/etc/pgpass",
                    "postgresql://ada:word@db.example/acme?sslkey=/etc/key",
                    "postgresql://ada@db.example/acme",
                    "postgresql://ada:word@/acme?host=/run/postgresql",
                    "postgresql://ada:word@/acme?host=@socket",
                    "postgresql://ada:word@db.example%2C%2Frun/acme",
                    "postgresql://ada:word@db.example,db2.example/acme",
                    "postgresql://ada:word@db.example/acme?sslpassword=word",
                )
            ]

        assert [one.headers["x-error-code"] for one in answers] == ["url_of_server"] * 9
        assert empty.stat().st_size == 0

    @on_sqlite
    async def test_the_message_does_not_say_why_no_server_has_answered(
        self, ours: Settings, postgres_url: str
    ):
        def close(_reader: object, writer: asyncio.StreamWriter) -> None:
            writer.close()

        listener = await asyncio.start_server(close, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        there = with_password(create_database(postgres_url, "test_listens"))
        async with (
            listener,
            open_services(ours) as services,
            admin_of(services) as client,
        ):
            answers = [
                await client.post(DATABASES, json={"name": "legacy", "url": url})
                for url in (
                    f"postgresql://ada:word@127.0.0.1:{port}/acme",
                    f"postgresql://ada:word@127.0.0.1:{port}/acme?sslmode=require",
                    f"postgresql://ada:word@127.0.0.1:{port}/acme?sslmode=disable",
                    f"postgresql://ada:word@127.0.0.1:{free_port()}/acme",
                    "postgresql://ada:word@nowhere.invalid/acme",
                    there.replace("test_listens", "missing"),
                )
            ]

        *silent, postgres = [one.json()["message"] for one in answers]
        assert "no PostgreSQL server" in silent[0]
        assert set(silent) == {silent[0]}
        assert "The database does not exist (SQLSTATE 3D000)" in postgres


@asynccontextmanager
async def admin_of(services: Services) -> AsyncIterator[httpx.AsyncClient]:
    """Yield the client of a new admin."""
    await admins.create(
        system_context("test"),
        services.catalog,
        services.passwords,
        email=ADMIN,
        password=ADMIN_PASSWORD,
    )
    async with client_of(app_over(services)) as client:
        body = {"email": ADMIN, "password": ADMIN_PASSWORD}
        login = await client.post("/api/admin/auth/login", json=body)
        client.headers["authorization"] = f"Bearer {login.json()['data']['token']}"
        yield client
