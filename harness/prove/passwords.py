"""Passwords at rest and their length: P5, P6, P7."""

import asyncio
import itertools
import re

import argon2

from harness.api import LOGIN, TENANTS, as_admin, key_of
from harness.fleet.fleets import ENGINES
from harness.processes import Process
from harness.prove.calls import Answer, Line, login
from harness.prove.login import TRUSTING
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, World
from testkit.raw_sql import Raw

FORM = re.compile(r"\$argon2id\$v=19\$m=(\d+),t=(\d+),p=1\$.+")

MEMORY_KIB_MIN, TIME_COST_MIN = 19_456, 2

HASH_MIB = 19

EXTREME = (
    "$argon2id$v=19$m=8388608,t=2,p=1$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2id$v=19$m=4194304,t=1,p=1$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2id$v=19$m=19456,t=100000,p=1$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2id$v=19$m=1048576,t=1000,p=1$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2id$v=19$m=2097152,t=3,p=255$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2id$v=19$m=4294967295,t=4294967295,p=16777215$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2d$v=19$m=3145728,t=9,p=1$c29tZXNhbHRzb21l$" + "A" * 43,
    "$argon2id$v=19$m=19456,t=2,p=1$" + "A" * 100_000 + "$" + "A" * 43,
    "$2b$12$abcdefghijklmnopqrstuv",
    "not a hash \x01",
)


def p5(stage: Stage) -> Figure:
    """Read every stored password, and log in with one that was hashed at a lower cost."""
    faults: list[str] = []
    stored = 0
    for engine in ENGINES:
        world = stage.world(engine, 2)
        with stage.serving(world) as process:
            stored += asyncio.run(_check_hashes(world, process.port, stage.size(20, 4), faults))
    return Figure(
        done=f"{stored} passwords of users, read from the databases; a login with an older hash",
        found=f"{len(faults)} in another form than argon2id, m >= {MEMORY_KIB_MIN}, "
        f"t >= {TIME_COST_MIN}; one login, one upgrade",
        faults=faults,
    )


async def _check_hashes(world: World, port: int, users: int, faults: list[str]) -> int:
    tenant = world.tenants[0]
    raw = Raw(tenant.url)
    async with Line(port, as_admin(world)) as line:
        for number in range(users):
            user = {
                "email": f"new{number}@example.com",
                "fullName": "New",
                "password": f"{PASSWORD} {number}",
            }
            made = await line.post(f"{TENANTS}/{tenant.id}/users", user)
            assert made.ok, made
        old = argon2.PasswordHasher(time_cost=1, memory_cost=8_192, parallelism=1).hash(PASSWORD)
        raw.run(
            "UPDATE tenantry_user SET password_hash = ? WHERE email = ?", old, tenant.users[0].email
        )
        answer = await login(line, tenant, tenant.users[0].email, PASSWORD)
        if not answer.ok:
            faults.append(f"the older hash was refused: {answer}")
    rows = [str(row[0]) for row in raw.run("SELECT password_hash FROM tenantry_user")]
    rows += [str(row[0]) for row in Raw(world.catalog_url).run("SELECT password_hash FROM admin")]
    for row in rows:
        found = FORM.fullmatch(row)
        if not found or int(found[1]) < MEMORY_KIB_MIN or int(found[2]) < TIME_COST_MIN:
            faults.append(f"stored: {row[:40]}")
    return len(rows)


def p6(stage: Stage) -> Figure:
    """Log in where the stored hash asks for gigabytes."""
    faults: list[str] = []
    grown, slowest = 0.0, 0.0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world, **TRUSTING) as process:
            before = process.resident_mib()
            seconds, peak = asyncio.run(_log_in_at_extremes(world, process, faults))
            slowest, grown = max(slowest, seconds), max(grown, peak - before)
    # The first login of a process touches the memory of its own hash.
    if grown > 2 * HASH_MIB:
        faults.append(f"the memory grew by {grown:.0f} MiB")
    return Figure(
        done=f"{len(EXTREME)} stored hashes of up to 4 TiB and 4 billion rounds, on each engine",
        found=f"every login refused within {slowest:.2f} s, memory +{grown:.0f} MiB",
        faults=faults,
    )


async def _log_in_at_extremes(
    world: World, process: Process, faults: list[str]
) -> tuple[float, float]:
    tenant = world.tenants[0]
    raw, slowest = Raw(tenant.url), 0.0
    peak = process.resident_mib()
    async with Line(process.port) as line:
        for number, stored in enumerate(EXTREME):
            raw.run("UPDATE tenantry_user SET password_hash = ?", stored)
            asking = asyncio.create_task(
                login(
                    line,
                    tenant,
                    tenant.users[0].email,
                    PASSWORD,
                    x_forwarded_for=f"10.0.0.{number}",
                )
            )
            while not asking.done():
                peak = max(peak, process.resident_mib())
                await asyncio.sleep(0.01)
            answer = await asking
            slowest = max(slowest, answer.seconds)
            if answer.status != 401 or answer.seconds > 1:
                faults.append(f"{stored[:50]}: {answer} after {answer.seconds:.2f} s")
    return slowest, peak


def p7(stage: Stage) -> Figure:
    """Set and use passwords at the limits of length."""
    faults: list[str] = []
    slowest = 0.0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world, **TRUSTING) as process:
            slowest = max(slowest, asyncio.run(_check_lengths(world, process.port, faults)))
    return Figure(
        done="passwords of 64, 1,024 and 1,025 characters, bodies over 64 KiB, passwords that "
        "differ in character 73, 129 or 1,024 alone",
        found=f"{len(faults)} taken, refused or truncated wrongly; 1,025 characters refused in "
        f"{slowest * 1000:.0f} ms",
        faults=faults,
    )


async def _check_lengths(world: World, port: int, faults: list[str]) -> float:
    tenant = world.tenants[0]
    addresses = (f"10.1.{n}.1" for n in itertools.count())
    async with Line(port) as line:
        base, admin = f"{TENANTS}/{tenant.id}/users", as_admin(world)

        async def make(name: str, password: str) -> Answer:
            user = {"email": f"{name}@example.com", "fullName": name, "password": password}
            return await line.post(base, user, headers=admin)

        for length in (64, 1_024):
            password = ("é5kX" * 300)[:length]
            if not (made := await make(f"l{length}", password)).ok:
                faults.append(f"{length} characters: {made}")
            entered = await login(
                line, tenant, f"l{length}@example.com", password, x_forwarded_for=next(addresses)
            )
            if not entered.ok:
                faults.append(f"a login with {length} characters: {entered}")
        times = []
        for _ in range(5):
            answer = await make("long", "x7" * 512 + "y")
            times.append(answer.seconds)
            if answer.status != 400:
                faults.append(f"1,025 characters: {answer}")
        large = await line.post(
            LOGIN, b'{"email":"' + b"a" * 70_000 + b'"}', headers=key_of(tenant)
        )
        if large.status != 413:
            faults.append(f"a body of 70,000 bytes: {large}")
        for at in (73, 129, 1_024):
            password = ("q8Wz" * 256)[: max(at, 200)]
            assert (await make(f"c{at}", password)).ok
            other = password[: at - 1] + "#" + password[at:]
            entered = await login(
                line, tenant, f"c{at}@example.com", other, x_forwarded_for=next(addresses)
            )
            if entered.status != 401:
                faults.append(f"character {at} does not count: {entered}")
    return min(times)


PROMISES = (
    Promise(5, "Passwords are stored as Argon2id at OWASP's cost.", p5, "hashes with 64 KiB"),
    Promise(
        6,
        "A hostile stored hash costs neither memory nor time.",
        p6,
        "the cost of a stored hash is not checked",
    ),
    Promise(
        7,
        "Long passwords are bounded, and none is truncated.",
        p7,
        "passwords are cut off after 72 characters",
    ),
)
