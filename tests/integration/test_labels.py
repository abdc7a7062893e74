"""Labels of tenants, and the language that selects tenants."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tenantry.catalog import audit, runs, tenant_list, tenants
from tenantry.catalog.labels import LABELS_MAX, BadLabels, checked_labels
from tenantry.catalog.tables import tenant
from tenantry.catalog.tenants import Tenant, TenantState
from tenantry.catalog.where import CHARS_MAX, DEPTH_MAX, TERMS_MAX, condition_of
from tenantry.fleet.approval import PlanChanged
from tenantry.fleet.labelling import BadLabelFile, import_labels, label
from tenantry.fleet.run_options import BadRunOptions, RunOptions
from tenantry.kit.clock import utc_now
from tenantry.kit.context import system_context
from tenantry.kit.errors import Invalid
from tenantry.kit.ids import new_id
from tenantry.kit.pages import Window
from tenantry.kit.text import canonical
from tenantry.services import Services
from testkit import raw_sql
from tests.acceptance.support import MIGRATE_ALL, TENANTS, ok, patch_tenant, refused
from tests.conftest import PASSWORD, World, provision
from tests.contracts.ledger import sync_engine
from tests.integration.gates import tenants as made_tenants

ROOT = Path(__file__).parents[2]

ADA = system_context("ada")
LABELS = "SELECT key, value FROM tenant_label ORDER BY key"
FLEET: tuple[dict[str, Any], ...] = (
    {"name": "Acme", "labels": {"plan": "free", "canary": "yes"}},
    {"name": "100% Größe", "labels": {"plan": "pro"}, "revision": "0001"},
    {"name": "under_score", "labels": {"region": "eu"}, "server": "eu"},
    {"name": "back\\slash", "labels": {}, "failing": True},
    {"name": "O'Neill", "labels": {"plan": "free", "region": "us"}, "failing": True},
)

# Of the greatest length, without a space beside its parentheses.
_PARTS_OF_LONG = "".join(f"and(k{n:02}!={'v' * 62})" for n in range(13))
LONG = f"plan=free {_PARTS_OF_LONG}and(x!={'y' * (CHARS_MAX - len(_PARTS_OF_LONG) - 18)})"
PAGES = (
    "plan=free",
    "plan=free and not failing",
    "failing and plan='free' and region=us",
    "plan=free and (region=us or canary=yes)",
    "plan=free and plan=free",
    "plan=free and plan=pro",
    "region!=us and  plan=free",
    'name~"ne" and plan="free"',
    "server=eu and region=eu and not name=x",
    "(plan=free)",
    "not plan=free",
    "plan=free or region=eu",
    "plan=and",
    "plan in (free, pro) and canary=yes",
    "revision!='' and plan=pro",
    "region!=eu and plan=free and(name~e)",
    "plan=free and(region=us)and(not canary=yes)",
    LONG,
)


@asynccontextmanager
async def changing(services: Services) -> AsyncIterator[sa.Connection]:
    """Open the catalog for a block; the changes are kept at its end.

    The lock of SQLite is awaited in a thread: the loop is needed to release it.
    """
    engine = sync_engine(services.settings.catalog)
    with engine.begin() as catalog:
        if engine.dialect.name == "sqlite":
            await asyncio.to_thread(catalog.exec_driver_sql, "BEGIN IMMEDIATE")
        yield catalog
    engine.dispose()


def insert(catalog: sa.Connection) -> None:
    """Add the rows of `FLEET` to the catalog, without databases."""
    for one in FLEET:
        catalog.execute(
            sa.insert(tenant).values(
                id=new_id(),
                name=one["name"],
                canonical_name=canonical(one["name"]),
                database_name=one["name"],
                server_name=one.get("server", "default"),
                state=TenantState.READY.value,
                is_active=True,
                modules=frozenset(),
                created_at=utc_now(),
                schema_revision=one.get("revision"),
                failing_run_id=UUID(int=1) if one.get("failing") else None,
                labels=one["labels"],
            )
        )


def selected(catalog: sa.Connection, where: str) -> set[str]:
    return set(catalog.scalars(sa.select(tenant.c.name).where(condition_of(where))))


def is_selected(one: dict[str, Any], expression: Any) -> bool:
    """Evaluate an expression of `EXPRESSIONS` on one of `FLEET`."""
    match expression:
        case ("not", inner):
            return not is_selected(one, inner)
        case ("and", left, right):
            return is_selected(one, left) and is_selected(one, right)
        case ("or", left, right):
            return is_selected(one, left) or is_selected(one, right)
        case "failing":
            return bool(one.get("failing"))
        case ("~", text):
            return canonical(text) in canonical(one["name"])
    sign, key, values = expression
    known = {
        **one["labels"],
        "name": canonical(one["name"]),
        "server": one.get("server", "default"),
    }
    known["revision"] = one.get("revision")
    wanted = [canonical(value) if key == "name" else value for value in values]
    return (known.get(key) in wanted) != (sign == "!=")


def as_text(expression: Any) -> str:
    match expression:
        case ("not", inner):
            return f"not ({as_text(inner)})"
        case ("and" | "or" as word, left, right):
            return f"({as_text(left)}) {word} ({as_text(right)})"
        case "failing":
            return "failing"
        case ("~", text):
            return f'name~"{text}"'
    sign, key, values = expression
    quoted = [f'"{one}"' for one in values]
    return f"{key} in ({', '.join(quoted)})" if sign == "in" else f"{key}{sign}{quoted[0]}"


def compared(key: st.SearchStrategy[str], value: st.SearchStrategy[str]) -> Any:
    signs = st.sampled_from(["=", "!=", "in"])
    values = st.lists(value, min_size=1, max_size=3)
    return st.tuples(signs, key, values).map(
        lambda one: (one[0], one[1], one[2] if one[0] == "in" else one[2][:1])
    )


_NAME = st.sampled_from([one["name"] for one in FLEET] + ["acme", "nobody"])
_PARTS = st.sampled_from(["%", "_", "\\", "'", "e", "ß", "ACME", "zz", ""])
_LEAVES = st.one_of(
    compared(
        st.sampled_from(["plan", "region", "canary", "none"]),
        st.sampled_from(["free", "pro", "eu", "us", "yes"]),
    ),
    compared(st.just("name"), _NAME),
    compared(st.just("server"), st.sampled_from(["eu", "default", "x"])),
    compared(st.just("revision"), st.sampled_from(["0001", "0002"])),
    st.tuples(st.just("~"), _PARTS),
    st.just("failing"),
)
EXPRESSIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), inner, inner)
    ),
    max_leaves=6,
)


class TestWhere:
    async def test_selects_what_its_words_say(self, services: Services):
        """For any expression, the engine finds the tenants that reading them one by one finds."""
        async with changing(services) as catalog:
            insert(catalog)

            @given(EXPRESSIONS)
            @hypothesis_settings(max_examples=150, deadline=None)
            def check(expression: Any) -> None:
                wanted = {one["name"] for one in FLEET if is_selected(one, expression)}
                assert selected(catalog, as_text(expression)) == wanted

            check()

    async def test_binds_and_before_or_and_reads_words_without_quotes(self, services: Services):
        async with changing(services) as catalog:
            insert(catalog)

            assert selected(catalog, "region=eu or plan=free and not failing") == {
                "under_score",
                "Acme",
            }
            assert selected(catalog, "(region=eu or plan=free) and not failing") == {
                "under_score",
                "Acme",
            }
            assert selected(catalog, "  not not plan in(free,pro)and canary!='no' ") == {
                "Acme",
                "100% Größe",
                "O'Neill",
            }

    @pytest.mark.parametrize(
        ("where", "message"),
        [
            ("", "must not be blank"),
            ("plan", "`=`, `!=`, `in` is expected at 5, not the end"),
            ("plan=", "a value is expected at 6, not the end"),
            ("plan==free", "a value is expected at 6, not ="),
            ("plan=free pro", "`and`, `or`, or the end is expected at 11, not pro"),
            ("plan=free AND region=eu", "`and`, `or`, or the end is expected at 11, not AND"),
            ("plan=free and", "expected at 14, not the end"),
            ("(plan=free", "`)` is expected at 11, not the end"),
            ("plan in free", "`(` is expected at 9, not free"),
            ("plan in ()", "a value is expected at 10, not )"),
            ("plan~free", "`=`, `!=`, `in` is expected at 5, not ~"),
            ("plan='free", "' at 6 is wrong"),
            ("plan!free", "! at 5 is wrong"),
            ("in=1", "is expected at 1, not in"),
            ("plan=1;DROP", "1;DROP"),
            ("Plan!=free", "cannot be a label"),
            ('plan!="free "', "cannot be a label"),
            ("name='a\0'", "control characters"),
            ("name='\ud800'", "broken Unicode"),
            ("not " * DEPTH_MAX + "failing", "parentheses inside each other"),
            (f"plan in ({','.join('a' * (TERMS_MAX + 1))})", "at most 50 values"),
            ("name=" + "a" * CHARS_MAX, "at most 1000 characters"),
        ],
    )
    def test_that_is_wrong_is_refused_with_its_place(self, where: str, message: str):
        with pytest.raises(Invalid) as refusal:
            condition_of(where)
        assert message in str(refusal.value)

    def test_is_documented_by_examples_that_are_right(self):
        page = (ROOT / "docs" / "labels.md").read_text()
        examples = re.findall(r"^\| `(.+?)` \|", page.partition("## Where")[2], re.MULTILINE)
        assert len(examples) == 12
        for one in examples:
            condition_of(one)

    def test_may_have_as_many_parts_as_its_bounds(self):
        condition_of("not " * (DEPTH_MAX - 1) + "failing")
        condition_of(f"plan in ({','.join('a' * TERMS_MAX)})")
        condition_of(" or ".join(["a=b"] * TERMS_MAX))


class TestLabels:
    async def test_are_in_their_table_until_they_are_changed_or_the_tenant_is_removed(
        self, services: Services
    ):
        url = services.settings.catalog
        made = (await provision(services, "acme")).tenant
        assert raw_sql.rows(url, LABELS) == []

        made = await services.lifecycle.update(ADA, made, labels={"plan": "free", "a.b-c_1": "x/Y"})
        assert raw_sql.rows(url, LABELS) == [("a.b-c_1", "x/Y"), ("plan", "free")]

        made = await services.lifecycle.update(ADA, made, name="other")
        assert made.labels == {"plan": "free", "a.b-c_1": "x/Y"}

        made = await services.lifecycle.update(ADA, made, labels={"plan": "pro"})
        assert raw_sql.rows(url, LABELS) == [("plan", "pro")]
        assert (await tenants.get(services.catalog, made.id)).labels == {"plan": "pro"}

        async with changing(services) as catalog:
            insert(catalog)
            assert len(catalog.execute(sa.text(LABELS)).all()) == 7
            catalog.execute(sa.delete(tenant).where(tenant.c.name.in_([o["name"] for o in FLEET])))
        assert raw_sql.rows(url, LABELS) == [("plan", "pro")]

    @pytest.mark.parametrize(
        "labels",
        [
            *({key: "x"} for key in ("", "Plan", "-a", "a b", "a=b", "ä", "a" * 64, "a\0")),
            *({key: "x"} for key in ("name", "server", "revision", "failing", "not", "in", "or")),
            *({"a": value} for value in ("", " ", "-a", "a b", "a,b", "a)", "ä", "a" * 64, "a\0")),
            {f"k{number}": "x" for number in range(LABELS_MAX + 1)},
        ],
    )
    def test_that_no_expression_could_select_are_refused(self, labels: dict[str, str]):
        with pytest.raises(BadLabels):
            checked_labels(labels)

    def test_may_be_as_long_and_as_many_as_their_bounds(self):
        labels = {f"{number:063}": "x" * 63 for number in range(LABELS_MAX)}
        assert checked_labels(labels) == labels
        for key, value in labels.items():
            condition_of(f"{key}={value}")

    async def test_select_pages_of_tenants_also_with_a_search(self, services: Services):
        async def names(page: int, search: str | None = None) -> tuple[list[str], int]:
            found = await tenant_list.page(
                services.catalog, Window(page, 2), search=search, where="plan in (free, pro)"
            )
            return [one.name for one in found.items], found.total_count

        async with changing(services) as catalog:
            insert(catalog)

        assert await names(1) == (["100% Größe", "Acme"], 3)
        assert await names(2) == (["O'Neill"], 3)
        assert await names(1, "e") == (["100% Größe", "Acme"], 3)
        assert await names(1, "größe") == (["100% Größe"], 1)
        assert await names(1, "under") == ([], 0)

    async def test_select_pages_as_the_conditions_select_tenants(self, services: Services):
        """Whatever table a page is read from: with one label, that of the labels."""
        async with changing(services) as catalog:
            insert(catalog)
            wanted = {where: sorted(selected(catalog, where), key=canonical) for where in PAGES}

        for where, names in wanted.items():
            for size in (1, 2, 50):
                pages = [
                    await tenant_list.page(services.catalog, Window(number, size), where=where)
                    for number in range(1, len(names) // size + 3)
                ]
                assert [one.name for page in pages for one in page.items] == names, where
                assert {one.total_count for one in pages} == {len(names)}, where

    async def test_select_a_page_with_the_name_and_the_state_that_tenants_have_now(
        self, services: Services
    ):
        async def names() -> list[str]:
            found = await tenant_list.page(services.catalog, Window(1, 20), where="plan=free")
            return [one.name for one in found.items]

        some = [(await provision(services, name)).tenant for name in ("acme", "globex")]
        some = [await services.lifecycle.update(ADA, one, labels={"plan": "free"}) for one in some]
        assert await names() == ["acme", "globex"]

        await services.lifecycle.update(ADA, some[0], name="zeta")
        assert await names() == ["globex", "zeta"]

        async with changing(services) as catalog:
            catalog.execute(sa.update(tenant).values(state=TenantState.PROVISIONING.value))
        assert await names() == []

        async with changing(services) as catalog:
            catalog.execute(sa.update(tenant).values(state=TenantState.READY.value))
        assert await names() == ["globex", "zeta"]


class TestOverHttp:
    async def test_are_given_changed_listed_and_audited(self, world: World):
        admin = await world.admin()
        owner = {"email": "o@example.com", "fullName": "O", "password": PASSWORD}
        body = {"name": "Initech", "owner": owner, "labels": {"plan": "free"}}
        made = ok(await admin.post(TENANTS, json=body), 201)
        assert made["labels"] == {"plan": "free"}
        shown = await patch_tenant(world, world.acme, labels={"plan": "pro", "canary": "yes"})
        assert shown["labels"] == {"canary": "yes", "plan": "pro"}

        for where, names in (
            ("plan=free", ["Initech"]),
            ("canary=yes", [world.acme.tenant.name]),
            ("plan!=free and not canary=yes", [world.globex.tenant.name]),
        ):
            page = ok(await admin.get(TENANTS, params={"where": where}))
            assert [one["name"] for one in page["items"]] == names, where
            assert page["totalCount"] == len(names)

        log = ok(await admin.get("/api/admin/audit-log", params={"action": "tenant.update"}))
        assert log["items"][0]["changes"] == [
            {"field": "labels", "old": "", "new": "canary=yes plan=pro"}
        ]

    async def test_are_refused_as_a_bad_request(self, world: World):
        admin = await world.admin()
        path = f"{TENANTS}/{world.acme.tenant.id}"
        for labels in ({"Plan": "x"}, {"plan": ""}, {"plan": None}, None, ["plan"], {"plan": 1}):
            refused(await admin.patch(path, json={"labels": labels}), 400)
        for where in ("", "plan=", "plan='\0'", "plan=free and"):
            refused(await admin.get(TENANTS, params={"where": where}), 400)
        assert ok(await admin.get(path))["labels"] == {}


class TestRuns:
    async def test_are_of_the_tenants_that_an_expression_selects(self, services: Services):
        made = await labelled(services)
        await services.lifecycle.update(ADA, made[3], is_read_only=True)
        options = RunOptions(where="plan=free")

        run = await services.fleet.wait(await start(services, options))
        both = replace(options, tenant_ids=[made[1].id, made[2].id], waves=["canary=yes", "100%"])
        with pytest.raises(BadRunOptions, match="canary=yes selects none of the run"):
            await start(services, both)
        narrowed = await services.fleet.wait(await start(services, replace(both, waves=None)))

        assert await names_of(services, run.id) == {"tenant00", "tenant02"}
        assert await names_of(services, narrowed.id) == {"tenant02"}

    async def test_begin_with_the_wave_of_a_label(self, services: Services):
        """A tenant whose label is changed later stays in its wave."""
        await labelled(services)

        waves = ["canary=yes", "plan=free and not name~tenant03", "100%"]
        run = await services.fleet.wait(await start(services, RunOptions(waves=waves)))

        assert run.waves == [1, 2, 4]
        assert [one["where"] for one in run.wave_details or ()] == [*waves[:2], None]
        items = await runs.ended(services.catalog, run.id)
        assert min(items, key=lambda one: str(one.started_at)).tenant_name == "tenant00"

    async def test_of_a_plan_are_refused_when_other_tenants_are_selected(self, services: Services):
        made = await labelled(services)
        options = RunOptions(where="plan=free")
        stored = (await services.fleet.preview(ADA, options, rehearse=False)).plan
        assert stored is not None
        assert stored.options[0]["where"] == "plan=free"

        with pytest.raises(BadRunOptions, match="`where` is not that of the plan"):
            await start(services, RunOptions(where="plan=pro"), plan_id=stored.id)
        await services.lifecycle.update(ADA, made[0], labels={})
        with pytest.raises(PlanChanged):
            await start(services, options, plan_id=stored.id)
        await services.lifecycle.update(ADA, made[0], labels=made[0].labels)
        run = await services.fleet.wait(await start(services, options, plan_id=stored.id))

        assert await names_of(services, run.id) == {"tenant00", "tenant02", "tenant03"}

    @pytest.mark.parametrize(
        "options", [RunOptions(where="plan="), RunOptions(where=" "), RunOptions(waves=["plan="])]
    )
    async def test_with_a_wrong_expression_are_refused(
        self, services: Services, options: RunOptions
    ):
        with pytest.raises(Invalid):
            await start(services, options)

    async def test_over_http_have_the_expression_in_their_plan(self, world: World):
        admin = await world.admin()
        await patch_tenant(world, world.acme, labels={"plan": "free"})
        body = {"where": "plan=free", "dryRun": True}

        preview = ok(await admin.post(MIGRATE_ALL, json=body))
        plans = ok(await admin.get("/api/admin/plans"))
        run = ok(await admin.post(MIGRATE_ALL, json={"where": "plan=free"}))

        assert [one["customerId"] for one in preview["details"]] == [str(world.acme.tenant.id)]
        assert [one["where"] for one in plans["items"]] == ["plan=free"]
        assert [one["customerName"] for one in run["details"]] == [world.acme.tenant.name]
        refused(await admin.post(MIGRATE_ALL, json={"where": "plan="}), 400)


async def labelled(services: Services) -> list[Tenant]:
    """Return four tenants: the first is a canary, and three have the plan `free`."""
    labels = {"plan": "free", "canary": "yes"}, {}, {"plan": "free"}, {"plan": "free"}
    return [
        await services.lifecycle.update(ADA, one, labels=some)
        for one, some in zip(await made_tenants(services, 4), labels, strict=True)
    ]


async def start(services: Services, options: RunOptions, plan_id: UUID | None = None) -> UUID:
    return await services.fleet.plan(ADA, triggered_by="ada", options=options, plan_id=plan_id)


async def names_of(services: Services, run_id: UUID) -> set[str]:
    return {one.tenant_name for one in await runs.ended(services.catalog, run_id)}


class TestChanges:
    async def test_at_the_same_time_are_all_kept(self, services: Services):
        made = (await provision(services, "acme")).tenant

        await asyncio.gather(
            *(label(ADA, services.catalog, made.id, [f"k{number}=x"]) for number in range(8))
        )

        found = await tenants.get(services.catalog, made.id)
        assert found.labels == {f"k{number}": "x" for number in range(8)}

    async def test_that_change_nothing_are_not_in_the_audit_log(self, services: Services):
        made = (await provision(services, "acme")).tenant
        await label(ADA, services.catalog, made.id, ["plan=free"])
        before = await entries(services)

        assert (await label(ADA, services.catalog, made.id, ["plan=free"])).id == made.id

        assert await entries(services) == before
        for wrong in (["plan=a", "plan=b"], ["none-"], ["Plan=x"]):
            with pytest.raises(BadLabels):
                await label(ADA, services.catalog, made.id, wrong)


class TestFiles:
    async def test_set_and_remove_the_labels_of_many_tenants(self, services: Services):
        made = await labelled(services)
        content = "name,plan,region\ntenant00,pro,eu\r\nTENANT01,,us\n\ntenant02,-,\ntenant03,free,"
        with_mark = content.encode("utf-8-sig")

        assert await import_labels(ADA, services.catalog, with_mark) == (4, 3)

        found = [(await tenants.get(services.catalog, one.id)).labels for one in made]
        assert found == [
            {"plan": "pro", "canary": "yes", "region": "eu"},
            {"region": "us"},
            {},
            {"plan": "free"},
        ]
        before = await entries(services)
        assert (before.count("tenant.label"), before.count("tenant.update")) == (1, 3 + 3)
        assert await import_labels(ADA, services.catalog, with_mark) == (4, 0)
        assert await entries(services) == before

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "Line 1 must be"),
            ("name\ntenant00\n", "Line 1 must be"),
            ("plan,name\nfree,tenant00\n", "Line 1 must be"),
            ("name,plan,plan\n", "Line 1 must be"),
            ("name,Plan\n", "Line 1: Plan cannot be the key"),
            ("name,plan\ntenant00,pro\ntenant01\n", "Line 3 has 1 cells, and line 1 has 2"),
            ("name,plan\ntenant00,pro\n\nnobody,pro\n", "Line 4: there is no tenant nobody"),
            ("name,plan\ntenant00,pro\x0ctenant01,pro\n", "Line 2 has 3 cells, and line 1 has 2"),
            ("name,plan\ntenant00,pro\ntenant01,a b\n", "Line 3: a b cannot be the value"),
            ("name,plan\ntenant00,pro\nTenant00,free\n", "Line 3: Tenant00 is on line 2 too"),
            ('name,plan\ntenant00,pro\n"tenant01,pro\n', "Line 3 is no CSV"),
            ("name,plan\ntenant00,pro\ntenant01,\udcff\n", "Line 3 is not UTF-8"),
            ("name,plan\ntenant00,pro\n" + "x,y\n" * 8, "3 more lines are wrong"),
        ],
    )
    async def test_that_are_wrong_change_nothing_and_name_the_line(
        self, services: Services, content: str, message: str
    ):
        await made_tenants(services, 2)

        with pytest.raises(BadLabelFile) as refusal:
            await import_labels(ADA, services.catalog, content.encode(errors="surrogateescape"))

        assert message in str(refusal.value)
        assert raw_sql.rows(services.settings.catalog, LABELS) == []


async def entries(services: Services) -> list[str]:
    """Return the actions of the audit log."""
    found = await audit.LOG.page(services.catalog, Window(1, 100))
    return [one.action for one in found.items]
