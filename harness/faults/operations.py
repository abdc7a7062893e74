"""The operations whose calls fail: how each is prepared, and what it has done when it succeeds."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from harness.faults.preloaded import POSTING
from harness.faults.programs import Outcome
from harness.faults.stage import (
    BOTH,
    CATALOG,
    FAR,
    FAR_POSTGRES,
    MOVER,
    NEW,
    OWNER,
    POSTGRESQL,
    SHOP,
    SQLITE,
    Stage,
)
from tenantry.db.urls import sqlite_path
from testkit.postgres import create_database
from testkit.raw_sql import columns, connected, rows, run, tables
from testkit.revisions import AlembicFolder

Check = Callable[[Stage], list[str]]

REVISION_BODY = """
op.create_table("added", sa.Column("id", sa.Integer, primary_key=True))
op.execute("INSERT INTO added SELECT id FROM note")
op.add_column("note", sa.Column("weight", sa.Integer))
op.execute("UPDATE note SET weight = id")
"""


def _nothing(stage: Stage) -> None:
    del stage


def _no_faults(stage: Stage) -> list[str]:
    del stage
    return []


@dataclass(frozen=True)
class Operation:
    """An operation.

    Attributes:
        name: Of it.
        words: Of the command.
        prepare: Called once, before the state is saved.
        done: Returns what is wrong after a success.
        always: Returns what is wrong after a success or a failure.
        failed: Returns what is wrong after a failure; it may change the state.
        is_done: Whether it has taken effect, though it failed: then it is not repeated.
        retry: What is run before the command is repeated, if it refuses.
        engine: Of the installation: `SQLITE`, `BOTH` or `POSTGRESQL`.
        creates: Whether it creates a database on the PostgreSQL server.
        may_suspend: Whether a tenant that cannot be migrated stays suspended, as is documented.
        catalog_moves: Whether the catalog is another one afterwards.
    """

    name: str
    words: Callable[[Stage], tuple[str, ...]]
    done: Check
    prepare: Callable[[Stage], None] = _nothing
    always: Check = Stage.faults
    failed: Check = _no_faults
    is_done: Callable[[Stage], bool] = lambda _: False
    retry: tuple[str, ...] = ()
    engine: str = SQLITE
    creates: bool = False
    may_suspend: bool = False
    catalog_moves: bool = False


# Creation, and copies.


def _new_is_whole(stage: Stage) -> list[str]:
    """A new tenant is whole, or is not listed as ready."""
    found = stage.tenants().get(NEW)
    if found is None or found.state != "ready":
        return [f"{NEW} is not there"]
    (owner,) = {mail for (mail,) in rows(stage.url(found), "SELECT email FROM tenantry_user")}
    return [] if owner == OWNER[1] else [f"the owner of {NEW} is {owner}"]


def _copy_is_whole(stage: Stage) -> list[str]:
    found = stage.tenants().get(NEW)
    if found is None or found.state != "ready":
        return [f"{NEW} is not there"]
    return [] if stage.content(found) == stage.contents[SHOP] else [f"{NEW} is not complete"]


def _if_ready(check: Check) -> Check:
    """Return what finds faults of the state, and of a new tenant that is ready."""

    def found(stage: Stage) -> list[str]:
        return stage.faults() + (check(stage) if _is_ready(stage) else [])

    return found


def _is_ready(stage: Stage) -> bool:
    found = stage.tenants().get(NEW)
    return found is not None and found.state == "ready"


def _empty(stage: Stage) -> None:
    """Remove everything: the first command creates the catalog and the secret key."""
    stage.contents.clear()
    for one in sorted(stage.folder.rglob("*"), reverse=True):
        one.rmdir() if one.is_dir() else one.unlink()
    if stage.server_url:
        stage.drop_databases("tenantry_")
        create_database(stage.server_url, CATALOG)


def _listed_if_any(stage: Stage) -> list[str]:
    """A catalog that exists is whole."""
    if not stage.has_catalog():
        return []
    faults: list[str] = []
    if stage.engine != POSTGRESQL:
        with connected(stage.catalog) as query:
            whole = query("PRAGMA integrity_check") == [("ok",)]
        faults = [] if whole else ["the catalog is damaged"]
    return faults + (_new_is_whole(stage) if _is_ready(stage) else [])


def _is_ready_if_any(stage: Stage) -> bool:
    return stage.has_catalog() and _is_ready(stage)


# Archives.


def _archives_are_whole(stage: Stage) -> list[str]:
    """An archive with a name is complete, or is refused."""
    faults: list[str] = []
    for archive in sorted((stage.data / "backups").glob("*.tar")):
        if stage.run("backup", "verify", str(archive)).status != 0:
            continue
        outcome = stage.run("backup", "restore", str(archive), "--as", "Check")
        if outcome.status != 0:
            faults.append(f"{archive.name} was verified and cannot be restored: {outcome.errors}")
        elif stage.content(stage.tenants()["Check"]) != stage.contents[SHOP]:
            faults.append(f"{archive.name} was verified and is not complete")
        else:
            stage.must("tenant", "suspend", "Check")
            stage.must("tenant", "delete", "Check", "--name", "Check")
    return faults


def _has_archive(stage: Stage) -> list[str]:
    found = sorted((stage.data / "backups").glob("*.tar"))
    if not found:
        return ["there is no archive"]
    bad = [one.name for one in found if stage.run("backup", "verify", str(one)).status != 0]
    return [f"{one} is refused" for one in bad]


def _make_archive(stage: Stage) -> None:
    stage.must("backup", "create", "--tenant", SHOP, "--to", str(stage.base / "archives"))
    (made,) = (stage.base / "archives").glob("*.tar")
    made.rename(stage.archive)


def _make_catalog_archive(stage: Stage) -> None:
    """Keep an archive of the catalog, and remove the catalog."""
    stage.must("backup", "create", "--all", "--to", str(stage.base / "archives"))
    (made,) = (stage.base / "archives").glob("*catalog*.tar")
    made.rename(stage.archive)
    for one in stage.data.glob("catalog.db*"):
        one.unlink()
    if stage.server_url:
        stage.drop_databases(CATALOG)
        create_database(stage.server_url, CATALOG)


def _catalog_is_back(stage: Stage) -> list[str]:
    return stage.faults()


def _no_half_catalog(stage: Stage) -> list[str]:
    """A catalog that lists something lists everything."""
    if not stage.has_catalog() or not stage.tenants():
        return []
    return stage.faults()


# Moves.


def _moved_to(server: str) -> Check:
    def check(stage: Stage) -> list[str]:
        is_there = stage.tenants()[MOVER].server == server
        return [] if is_there else [f"{MOVER} is not on {server}"]

    return check


def _moving(server: str) -> Callable[[Stage], tuple[str, ...]]:
    return lambda _: ("tenant", "move", MOVER, "--to", server, "--offline")


def _drop_notes(stage: Stage) -> None:
    """Drop the table that no revision has made: it is not carried over to another engine."""
    tenant = stage.tenants()[MOVER]
    run(stage.url(tenant), "DROP TABLE note")
    stage.contents[MOVER] = stage.content(tenant)


def _move_away(stage: Stage) -> None:
    _drop_notes(stage)
    stage.must("tenant", "move", MOVER, "--to", FAR_POSTGRES, "--offline")


def _on_the_old(server: str) -> Callable[[Stage], bool]:
    return lambda stage: stage.tenants()[MOVER].server == server


# The catalog.


def _other_file(stage: Stage) -> str:
    return f"sqlite:///{stage.folder}/other.db"


def _other_database(stage: Stage) -> str:
    return f"{stage.server_url.rpartition('/')[0]}/tenantry_catalog_new"


def _one_catalog(other: Callable[[Stage], str]) -> Check:
    """Not two catalogs accept writes, and one of them is whole."""

    def check(stage: Stage) -> list[str]:
        old, new = stage.catalog, other(stage)
        faults = stage.faults(old)
        writable = [one for one in (old, new) if _accepts_writes(one)]
        return faults + (["both catalogs accept writes"] if len(writable) == 2 else [])

    return check


def _new_catalog(other: Callable[[Stage], str]) -> Check:
    def check(stage: Stage) -> list[str]:
        faults = stage.faults(other(stage))
        if not _accepts_writes(other(stage)):
            faults.append("the new catalog accepts no writes")
        if _accepts_writes(stage.catalog):
            faults.append("the old catalog accepts writes")
        return faults

    return check


def _accepts_writes(url: str) -> bool:
    """Return whether a catalog lists the tenant, and the row can be changed."""
    path = sqlite_path(url)
    if path is not None and not path.exists():
        return False
    try:
        with connected(url) as query:
            return bool(query(f"UPDATE tenant SET name = name WHERE name = '{SHOP}' RETURNING id"))
    except (sqlite3.Error, psycopg.Error):
        return False


def _make_database(stage: Stage) -> None:
    create_database(stage.server_url, "tenantry_catalog_new")


# Migrations, and posts.


def _add_revision(stage: Stage) -> None:
    folder = AlembicFolder(stage.folder / "revisions")
    folder.add("r001_weigh", REVISION_BODY)
    stage.environment["TENANTRY_TENANT_MIGRATIONS"] = str(folder.path)


def _migrated(stage: Stage) -> list[str]:
    found = {name: _weights(stage, name) for name in stage.contents}
    return [f"{name} is not migrated: {one}" for name, one in found.items() if one != "after"]


def _before_or_after(stage: Stage) -> list[str]:
    found = {name: _weights(stage, name) for name in stage.contents}
    return stage.faults() + [f"{name}: {one}" for name, one in found.items() if one == "between"]


def _weights(stage: Stage, name: str) -> str:
    """Return whether the tenant is before the revision, after it, or between."""
    tenant = stage.tenants()[name]
    url = stage.url(tenant)
    with connected(url) as query:
        is_wide, is_added = "weight" in columns(url, "note"), "added" in tables(url)
        if is_wide is not is_added:
            return "between"
        if not is_added:
            return "before"
        ((count,),) = query("SELECT count(*) FROM added")
        ((weighed,),) = query("SELECT count(*) FROM note WHERE weight = id")
    return "after" if count == weighed == len(stage.contents[name][0]) else "between"


def posts_faults(stage: Stage, outcome: Outcome) -> list[str]:
    """Return what is wrong with the posts of a program: lost ones, and answers that say nothing."""
    tries: list[Any] = [json.loads(line) for line in outcome.output.splitlines()]
    url = stage.url(stage.tenants()[SHOP])
    stored = {title for (title,) in rows(url, "SELECT title FROM tenantry_post")}
    return [
        f"acknowledged, and lost: {one['title']}"
        for one in tries
        if one["status"] == 201 and one["title"] not in stored
    ] + [f"answered {one}" for one in tries if one["status"] not in {201, 503, 507}]


_OPERATIONS = (
    Operation(
        "first command",
        lambda _: ("tenant", "create", NEW, *OWNER),
        prepare=_empty,
        done=_new_is_whole,
        always=_listed_if_any,
        is_done=_is_ready_if_any,
    ),
    Operation(
        "create",
        lambda _: ("tenant", "create", NEW, *OWNER),
        done=_new_is_whole,
        always=_if_ready(_new_is_whole),
        is_done=_is_ready,
    ),
    Operation("post", lambda stage: (POSTING, str(stage.caller)), done=_no_faults),
    Operation(
        "migrate all",
        lambda _: ("migrate", "all"),
        prepare=_add_revision,
        done=_migrated,
        always=_before_or_after,
    ),
    Operation(
        "backup",
        lambda _: ("backup", "create", "--tenant", SHOP),
        done=_has_archive,
        failed=_archives_are_whole,
    ),
    Operation(
        "restore as another",
        lambda stage: ("backup", "restore", str(stage.archive), "--as", NEW),
        prepare=_make_archive,
        done=_copy_is_whole,
        always=_if_ready(_copy_is_whole),
        is_done=_is_ready,
        may_suspend=True,
    ),
    Operation(
        "replace",
        lambda stage: ("backup", "restore", str(stage.archive), "--replace", SHOP),
        prepare=_make_archive,
        done=_no_faults,
        may_suspend=True,
    ),
    Operation(
        "restore catalog",
        lambda stage: ("backup", "restore-catalog", str(stage.archive)),
        prepare=_make_catalog_archive,
        done=_catalog_is_back,
        always=_no_half_catalog,
        is_done=lambda stage: bool(_tenants_if_any(stage)),
    ),
    Operation("move to a folder", _moving(FAR), done=_moved_to(FAR), is_done=_on_the_old(FAR)),
    Operation(
        "move to PostgreSQL",
        _moving(FAR_POSTGRES),
        prepare=_drop_notes,
        done=_moved_to(FAR_POSTGRES),
        is_done=_on_the_old(FAR_POSTGRES),
        creates=True,
        engine=BOTH,
    ),
    Operation(
        "move to SQLite",
        _moving(FAR),
        prepare=_move_away,
        done=_moved_to(FAR),
        is_done=_on_the_old(FAR),
        engine=BOTH,
    ),
    Operation(
        "catalog move to a file",
        lambda stage: ("catalog", "move", "--to", _other_file(stage)),
        done=_new_catalog(_other_file),
        always=_one_catalog(_other_file),
        retry=("catalog", "move", "--cancel"),
        catalog_moves=True,
    ),
    Operation(
        "catalog move to PostgreSQL",
        lambda stage: ("catalog", "move", "--to", _other_database(stage)),
        prepare=_make_database,
        done=_new_catalog(_other_database),
        always=_one_catalog(_other_database),
        retry=("catalog", "move", "--cancel"),
        catalog_moves=True,
        engine=BOTH,
    ),
)


# Of an installation on PostgreSQL: each by its name, and whether it creates a database there.
_ON_POSTGRESQL = {
    "first command": True,
    "create": True,
    "post": False,
    "migrate all": False,
    "backup": False,
    "restore as another": True,
    "replace": True,
    "restore catalog": False,
    "catalog move to PostgreSQL": False,
}
OPERATIONS = (
    *_OPERATIONS,
    *(
        replace(
            one,
            name=f"PostgreSQL: {one.name}",
            engine=POSTGRESQL,
            creates=_ON_POSTGRESQL[one.name],
        )
        for one in _OPERATIONS
        if one.name in _ON_POSTGRESQL
    ),
)


def _tenants_if_any(stage: Stage) -> dict[str, Any]:
    return dict(stage.tenants()) if stage.has_catalog() else {}
