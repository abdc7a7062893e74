"""Provisioning a tenant, against the least that it takes.

On PostgreSQL that is the copy. On fast disks a file is copied in a millisecond, and the hash of
the owner's password, which is expensive on purpose, takes twenty: there it is part of the least.
"""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import asyncpg
from argon2 import PasswordHasher

from harness import wire
from harness.bench.bench import Bench
from harness.bench.figures import Bound, Figure
from harness.machine import pinned
from harness.processes import Process
from harness.world import PASSWORD, World
from tenantry.access.passwords import MEMORY_KIB, PARALLELISM, TIME_COST
from tenantry.db.urls import sqlite_path

WARM = 2


def on_postgresql(bench: Bench) -> list[Figure]:
    """Measure against ``CREATE DATABASE`` from the same template."""
    world = bench.on_postgresql
    url = bench.postgres_url
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(url))
    # Of two catalogs on the server there are two templates, which are alike.
    template = loop.run_until_complete(
        connection.fetchval(
            "SELECT datname FROM pg_database WHERE starts_with(datname, 'tenantry_template_')"
        )
    )

    def copy(number: int) -> None:
        sql = f'CREATE DATABASE "bare_{number}" TEMPLATE "{template}"'
        loop.run_until_complete(connection.execute(sql))

    try:
        work = "provisioning a tenant, PostgreSQL / `CREATE DATABASE`"
        return [_measure(bench, world, copy, work, Bound(3, 1.5, at_least=False))]
    finally:
        loop.run_until_complete(connection.close())
        loop.close()


def on_sqlite(bench: Bench) -> list[Figure]:
    """Measure against a hash, and the copy of a file that is synchronised, and its folder."""
    world = bench.on_sqlite
    path = sqlite_path(world.tenants[0].url)
    assert path is not None
    template = next(path.parents[2].glob("*/*/tenantry_template_*.db"))
    target = bench.folder / "copies"
    target.mkdir()
    hasher = PasswordHasher(TIME_COST, MEMORY_KIB, PARALLELISM)
    copies = []

    def copy(number: int) -> None:
        with template.open("rb") as source, (target / f"{number}.db").open("wb") as copied:
            shutil.copyfileobj(source, copied)
            copied.flush()
            os.fsync(copied.fileno())
        _synchronise(target)

    def hash_and_copy(number: int) -> None:
        with pinned(frozenset({bench.cores.server})):
            hasher.hash(PASSWORD)
            copies.append(_milliseconds(partial(copy, number)))

    work = "provisioning a tenant, SQLite / a hash and a copy of a file"
    figure = _measure(bench, world, hash_and_copy, work, Bound(1.5, 1.25, at_least=False))
    figure.notes.append(f"the copy alone {_range(copies[WARM:])}")
    return [figure]


def _measure(
    bench: Bench, world: World, least: Callable[[int], None], work: str, bound: Bound
) -> Figure:
    bare, ours = [], []
    with bench.ours(world) as process:
        for number in range(bench.plan.provisioned + WARM):
            bare.append(_milliseconds(partial(least, number)))
            ours.append(_milliseconds(partial(_provision, process, world, number)))
    bare, ours = bare[WARM:], ours[WARM:]
    base, whole = statistics.median(bare), statistics.median(ours)
    return Figure(
        work=work,
        value=whole / base,
        shown=f"{whole / base:.2f}",
        rate=f"{whole:.1f} ms, the least {base:.1f} ms",
        bound=bound,
        notes=[f"ours {_range(ours)}, the least {_range(bare)}, {len(ours)} of each in turn"],
    )


def _provision(process: Process, world: World, number: int) -> None:
    owner = {"email": f"owner@new{number}.example.com", "fullName": "Owner", "password": PASSWORD}
    request = wire.request(
        "POST",
        "/api/admin/tenants",
        headers={"authorization": f"Bearer {world.admin_token}"},
        body={"name": f"New {number}", "owner": owner},
    )
    answer = wire.ask(process.port, request)
    if answer.status != 201 or wire.SUCCESS not in answer.body:
        raise wire.WrongAnswer(repr(answer))


def _milliseconds(work: Callable[[], None]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def _synchronise(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _range(milliseconds: list[float]) -> str:
    return f"{min(milliseconds):.1f} to {max(milliseconds):.1f} ms"
