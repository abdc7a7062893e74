"""What a refused login gives away: P3, P4."""

import asyncio
import math
import statistics
from collections.abc import Sequence

from harness.api import ADMIN_LOGIN, LOGIN, TENANTS, as_admin, key_of
from harness.fleet.fleets import ENGINES
from harness.processes import Process
from harness.prove.calls import Answer, Line, login
from harness.prove.faults_inside import COUNT_HASHES, HASHED
from harness.prove.promise import Figure, Promise, Stage
from harness.world import Tenant, World

WRONG = "a wrong and quite long passphrase"

SIGMAS_MAX = 4.5

LEAK_MS = 1.0

DELTA_MS_MAX = 0.5

STEPS_OF_GUESSES = 8

PROXIES = ("127.0.0.1", *(f"127.3.0.{number}" for number in range(1, 11)))

TRUSTING = {"trusted_proxies": ",".join(PROXIES)}

FROM = "x-forwarded-for"


def p3(stage: Stage) -> Figure:
    """Log in wrongly, again and again, as users who exist and as users who do not."""
    faults: list[str] = []
    compared = 0
    for engine in ENGINES:
        world = stage.world(engine, 1, users=4)
        # The limits as they are by default, so that the refusals of the throttle are compared.
        usual = {"login_tries": "5", "login_account_hourly": "100"}
        with stage.serving(world, **usual, **TRUSTING) as process:
            compared += asyncio.run(_compare_refusals(world, process.port, faults))
    return Figure(
        done=f"{compared} refused logins: wrong password, unknown address, inactive user, past "
        "the limit of guesses; of users and of admins",
        found=f"{len(faults)} differences in status, body or header names",
        faults=faults,
    )


async def _compare_refusals(world: World, port: int, faults: list[str]) -> int:
    tenant, compared = world.tenants[0], 0
    async with Line(port) as line:
        inactive = f"{TENANTS}/{tenant.id}/users/{tenant.users[1].id}"
        done = await line.ask("PATCH", inactive, {"isActive": False}, headers=as_admin(world))
        assert done.ok, done
        cases = {
            "wrong password": tenant.users[0].email,
            "unknown address": "unknown@tenant0.example.com",
            "inactive user": tenant.users[1].email,
        }
        admins = {"wrong password": "ada@example.com", "unknown address": "unknown@example.com"}
        for path, headers, emails in (
            (LOGIN, key_of(tenant), cases),
            (ADMIN_LOGIN, {}, admins),
        ):
            for number in range(STEPS_OF_GUESSES):
                seen = {}
                for name, email in emails.items():
                    body = {"email": email, "password": WRONG}
                    sent = headers | {FROM: "198.51.100.7"}
                    seen[name] = _essence(await line.post(path, body, headers=sent))
                compared += len(seen)
                if len(set(seen.values())) > 1:
                    faults.append(f"guess {number + 1} at {path}: {seen}")
    return compared


def _essence(answer: Answer) -> tuple[int, bytes, tuple[str, ...]]:
    return answer.status, answer.body, tuple(sorted(name for name, _ in answer.headers))


def p4(stage: Stage) -> Figure:
    """Compare the time of wrong logins, pair by pair, beside a leak that must be seen."""
    rounds = stage.size(1_000, 60)
    world = stage.world("sqlite", 1, users=12)
    with stage.serving(world, COUNT_HASHES, **TRUSTING) as process:
        tenant = world.tenants[0]
        times, faults = asyncio.run(_time_logins(world, tenant, process, rounds))
        hashed = process.written.read_text().count(HASHED)
    logins = rounds * len(times)
    if hashed != logins:
        faults.append(f"{hashed} passwords were verified in {logins} logins")
    base = times["wrong password"]
    parts = []
    for name, found in times.items():
        if name == "wrong password":
            continue
        sigmas, delta = _compare(base, found)
        parts.append(f"{name}: z = {sigmas:+.1f}, {delta:+.2f} ms")
        # A few rounds beside other work have a median that says little.
        is_off = abs(delta) >= DELTA_MS_MAX and not stage.short
        if abs(sigmas) >= SIGMAS_MAX or is_off:
            faults.append(
                f"{name} can be recognised by its time: {sigmas:+.1f} sigma, {delta:+.2f} ms"
            )
    leak, _ = _compare(base, [one + LEAK_MS for one in times["unknown address"]])
    parts.append(f"with {LEAK_MS:g} ms added: z = {leak:+.1f}")
    if abs(leak) <= SIGMAS_MAX and not stage.short:
        faults.append(f"a leak of {LEAK_MS:g} ms would not be seen here: the machine is too noisy")
    return Figure(
        done=f"{rounds:,} interleaved rounds of a wrong password, an unknown address and an "
        "inactive user; paired sign test",
        found=f"{'; '.join(parts)}; {hashed / logins:g} hashes for each login",
        faults=faults,
    )


async def _time_logins(
    world: World, tenant: Tenant, process: Process, rounds: int
) -> tuple[dict[str, list[float]], list[str]]:
    times: dict[str, list[float]] = {
        "wrong password": [],
        "unknown address": [],
        "inactive user": [],
    }
    faults: list[str] = []
    half = len(tenant.users) // 2
    async with Line(process.port) as line:
        for user in tenant.users[half:]:
            path = f"{TENANTS}/{tenant.id}/users/{user.id}"
            await line.ask("PATCH", path, {"isActive": False}, headers=as_admin(world))
        for number in range(rounds):
            emails = {
                "wrong password": tenant.users[number % half].email,
                "unknown address": f"unknown{number % half}@tenant0.example.com",
                "inactive user": tenant.users[half + number % half].email,
            }
            order = list(emails)
            order = order[number % 3 :] + order[: number % 3]
            for at, name in enumerate(order):
                address = f"10.{at}.{number >> 8}.{number & 255}"
                answer = await login(line, tenant, emails[name], WRONG, x_forwarded_for=address)
                times[name].append(answer.seconds * 1000)
                if answer.status != 401:
                    faults.append(f"{name}: {answer}")
    return times, faults


def _compare(base: Sequence[float], found: Sequence[float]) -> tuple[float, float]:
    """Return how many sigmas the sign test is off, and the median difference."""
    deltas = [b - a for a, b in zip(base, found, strict=True)]
    slower = sum(delta > 0 for delta in deltas)
    sigmas = (slower - len(deltas) / 2) / (math.sqrt(len(deltas)) / 2)
    return sigmas, statistics.median(deltas)


PROMISES = (
    Promise(
        3,
        "A login says to no one which accounts exist.",
        p3,
        "the message differs for an unknown address",
    ),
    Promise(
        4,
        "Nor does the time of its answer.",
        p4,
        "an unknown address costs 150 ms more",
        seconds_max=900,
    ),
)
