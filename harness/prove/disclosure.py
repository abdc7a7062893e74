"""What is written down and what is said: P16 to P19."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from harness.api import (
    ADMIN_LOGIN,
    LOGIN,
    MIGRATE_ALL,
    MODULES,
    POSTS,
    PROFILE,
    PUBLIC_POSTS,
    TENANTS,
    as_admin,
    bearer,
    key_of,
    signed_in,
)
from harness.fleet.fleets import ENGINES
from harness.processes import Process
from harness.prove.calls import Answer, Line, login
from harness.prove.promise import Figure, Promise, Stage
from harness.world import PASSWORD, SECRET_KEY, Tenant, World
from tenantry.api.table import ENDPOINTS
from tenantry.db.urls import sqlite_path
from testkit.decision_table import level_of
from testkit.postgres import find_binaries
from testkit.raw_sql import Raw
from testkit.request_samples import body_of, path_of, query_of

NEW_PASSWORD = "another quite long passphrase"
EVIL = ("\r\n", "\n", "\r", "\x1b[31m", "\u2028", "\u2029", "\x85", '"} {"level":"forged"')
FORGED = '{"event":"forged","level":"error"}'


def p16(stage: Stage) -> Figure:
    """Issue keys, tokens and passwords, and search everything that is kept for them."""
    issued = stage.size(50, 5)
    faults: list[str] = []
    searched, secrets = 0, 0
    for engine in ENGINES:
        world = stage.world(engine, 2)
        with stage.serving(world) as process:
            found = asyncio.run(_issue(world, process.port, issued))
            secrets += len(found)
            for where, content in _kept(stage, world):
                searched += len(content)
                faults += [f"a secret is in {where}" for one in found if one.encode() in content]
    return Figure(
        done=f"{secrets} keys, McpTokens, bearers and passwords; every database, file and dump "
        f"searched for them ({searched / 2**20:.0f} MiB)",
        found=f"{len(faults)} found",
        faults=faults,
    )


async def _issue(world: World, port: int, count: int) -> list[str]:
    tenant = world.tenants[0]
    base = f"{TENANTS}/{tenant.id}"
    found = [PASSWORD, *(one.api_key for one in world.tenants)]
    async with Line(port, as_admin(world)) as line:
        for number in range(count):
            user = {
                "email": f"n{number}@example.com",
                "fullName": "N",
                "password": f"pw {number} x7q",
            }
            assert (await line.post(f"{base}/users", user)).ok
            key = await line.post(f"{base}/api-keys", {})
            mcp = await line.post(f"{base}/mcp-tokens", {"name": f"assistant {number}"})
            entered = await login(line, tenant, user["email"], user["password"])
            found += [user["password"], key.data["key"], mcp.data["token"], entered.data["token"]]
            await line.get(PUBLIC_POSTS, headers={"x-api-key": key.data["key"]})
            await line.get(MODULES, headers={"x-mcp-token": mcp.data["token"]})
    return found


def _kept(stage: Stage, world: World) -> Iterator[tuple[str, bytes]]:
    """Yield everything at rest: files, and a dump of every database."""
    for path in Path(world.environment["TENANTRY_DATA_DIR"]).rglob("*"):
        if path.is_file():
            yield path.name, path.read_bytes()
    for url in (world.catalog_url, *(tenant.url for tenant in world.tenants)):
        yield "a database", Raw(url).dump().encode()
        if sqlite_path(url) is None:
            dump = subprocess.run(
                [find_binaries() / "pg_dump", "--dbname", url], capture_output=True, check=True
            )
            yield "a backup", dump.stdout
    del stage


def p17(stage: Stage) -> Figure:
    """Send secrets in every field and header at log level debug, and read all that is said."""
    faults: list[str] = []
    searched = 0
    for engine in ENGINES:
        world = stage.world(engine, 2)
        with stage.serving(world, log_level="debug") as process:
            texts, secrets = asyncio.run(_send_secrets(world, process))
        for where, text in texts.items():
            searched += len(text)
            faults += [f"a secret ({name}) is in {where}" for name, one in secrets if one in text]
    return Figure(
        done="a secret of its own in every credential header, password and token at all "
        f"endpoints, with failures of the database, log level debug; {searched:,} characters of "
        "log, metrics, history and errors",
        found=f"{len(faults)} secrets found",
        faults=faults,
    )


async def _send_secrets(
    world: World, process: Process
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    tenant = world.tenants[0]
    canary = "c4n4ry{}-of-a-secret-9f"
    secrets = [("secret key", SECRET_KEY), ("password", PASSWORD), ("API key", tenant.api_key)]
    secrets += [("bearer", tenant.users[0].token), ("admin's bearer", world.admin_token)]
    errors = ""
    async with Line(process.port) as line:
        for number, endpoint in enumerate(ENDPOINTS):
            if endpoint.is_event_stream:
                continue
            mine = canary.format(number)
            secrets.append((f"canary of {endpoint.path}", mine))
            names = ("password", "currentPassword", "newPassword", "token", "apiKey")
            body: dict[str, object] = {}
            if endpoint.reads_body:
                email, user_id = tenant.users[0].email, tenant.users[0].id
                body = body_of(endpoint, login=email, user_id=user_id) | dict.fromkeys(names, mine)
            path = path_of(endpoint, {})
            query = "" if endpoint.reads_body else query_of(endpoint, name="x").decode()
            for headers in (
                {"x-api-key": f"tnk_{mine}", "authorization": f"Bearer {mine}.a.b"},
                {"x-mcp-token": f"tnm_{mine}", "cookie": mine},
                {**signed_in(tenant), "cookie": mine},
                {**as_admin(world), "proxy-authorization": mine},
            ):
                answer = await line.ask(
                    endpoint.method,
                    f"{path}?{query}",
                    body if endpoint.reads_body else None,
                    headers=headers,
                )
                if not answer.ok:
                    errors += answer.raw.decode(errors="replace")
        errors += await _break_database(line, world, world.tenants[1], secrets)
        admin = await line.get("/metrics", headers=as_admin(world))
        history = await line.get("/api/admin/tenants/migration-history", headers=as_admin(world))
    await asyncio.sleep(0.5)
    said = process.written.read_text()
    assert said, "the log is empty"
    return {
        "the log": said,
        "the metrics": admin.body.decode(),
        "the history": history.body.decode(),
        "an error": errors,
    }, secrets


async def _break_database(
    line: Line, world: World, tenant: Tenant, secrets: list[tuple[str, str]]
) -> str:
    """Take tables away, so that statements that hold secrets and texts of users fail."""
    Raw(tenant.url).run("ALTER TABLE tenantry_user RENAME TO gone_user")
    Raw(tenant.url).run("ALTER TABLE tenantry_post RENAME TO gone_post")
    own = signed_in(tenant)
    text = "p4r4meter-of-a-statement"
    secrets.append(("a value of a statement", text))
    broken = [
        await line.ask("PUT", PROFILE, {"fullName": text, "email": "x@example.com"}, headers=own),
        await line.post(POSTS, {"title": text, "content": text, "tags": []}, headers=own),
        await login(line, tenant, tenant.users[0].email, PASSWORD),
        await line.post(MIGRATE_ALL, headers=as_admin(world)),
    ]
    if not any(answer.status >= 500 for answer in broken):
        raise AssertionError(f"the database was to be broken: {[*map(str, broken)]}")
    return "".join(answer.raw.decode(errors="replace") for answer in broken)


def p18(stage: Stage) -> Figure:
    """Send line ends and escapes wherever a text is taken, and read the log line by line."""
    faults: list[str] = []
    lines = 0
    texts = stage.size(40, 8)
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world, log_level="debug") as process:
            asked = asyncio.run(_send_evil(world, process.port, texts))
            said = process.written.read_bytes().split(b"\n")
        for one in said[:-1]:
            lines += 1
            # The line that says where the service answers is for people.
            if not _is_event(one) and not one.startswith(b"Tenantry answers at http://"):
                faults.append(f"a line that is no event: {one[:100]!r}")
        seen = sum(b'"path"' in one for one in said)
        if seen < asked:
            faults.append(f"{seen} lines of {asked} requests")
    return Figure(
        done="CR, LF, ESC, U+2028, quotes in paths, queries, headers, addresses and names: "
        f"{lines:,} lines of log",
        found=f"{len(faults)} lines that are not one event of JSON each",
        faults=faults,
    )


def _is_event(line: bytes) -> bool:
    try:
        event = json.loads(line)
    except ValueError:
        return False
    is_plain = not any(one in line for one in (b"\r", b"\x1b", b"\xe2\x80\xa8", b"\xc2\x85"))
    return is_plain and isinstance(event, dict) and "event" in event and event["event"] != "forged"


async def _send_evil(world: World, port: int, texts: int) -> int:
    tenant = world.tenants[0]
    asked = 0
    async with Line(port) as line:

        async def ask(method: str, path: str, body: object = None, **headers: str) -> None:
            nonlocal asked
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            with suppress(OSError):
                answer = await line.ask(method, path, body, headers=signed_in(tenant) | named)
                asked += answer.status != 400  # what is no HTTP is not an event

        for number in range(texts):
            evil = f"x{EVIL[number % len(EVIL)]}{FORGED}"
            quoted = "".join(f"%{byte:02x}" for byte in evil.encode())
            await ask("GET", f"/api/{quoted}")
            await ask("GET", f"{POSTS}?search={quoted}&{quoted}=1")
            await ask("PUT", PROFILE, {"fullName": evil, "email": f"a{evil}@example.com"})
            await ask("POST", LOGIN, {"email": evil, "password": evil})
            await ask("POST", ADMIN_LOGIN, {"email": evil, "password": evil})
            await ask("POST", POSTS, {"title": evil, "content": evil, "tags": [evil]})
            plain = evil.encode("ascii", "replace").decode().translate({10: " ", 13: " ", 27: " "})
            await ask("GET", MODULES, user_agent=plain, x_forwarded_for=plain, referer=plain)
    await asyncio.sleep(0.5)
    return asked


def p19(stage: Stage) -> Figure:
    """Ask every endpoint with no credentials and with bad ones, and read the challenges."""
    faults: list[str] = []
    refused = 0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world) as process:
            refused += asyncio.run(_read_challenges(world.tenants[0], process.port, faults))
    return Figure(
        done=f"{refused} answers 401 from every endpoint that asks for credentials",
        found=f"{len(faults)} without a challenge, or with an error where no token was sent",
        faults=faults,
    )


async def _read_challenges(tenant: Tenant, port: int, faults: list[str]) -> int:
    refused = 0
    async with Line(port) as line:
        for endpoint in ENDPOINTS:
            level = level_of(endpoint.path)
            if level == "Open":
                continue
            token_counts = level in {"Admin", "Tenant", "MCP"}
            cases: list[tuple[dict[str, str], bool]] = [
                ({}, False),
                ({"x-api-key": "tnk_x"}, False),
                (bearer("a.b.c"), token_counts),
                (key_of(tenant) | bearer("a.b.c"), token_counts),
            ]
            for headers, is_sent in cases:
                answer = await line.ask(endpoint.method, path_of(endpoint, {}), headers=headers)
                if answer.status != 401:
                    if not headers:
                        faults.append(f"{endpoint.method} {endpoint.path}: {answer}")
                    continue
                refused += 1
                faults += _wrong_challenge(
                    answer, f"{endpoint.method} {endpoint.path}", is_sent=is_sent
                )
    return refused


def _wrong_challenge(answer: Answer, where: str, *, is_sent: bool) -> list[str]:
    challenge = answer.said.get("www-authenticate", "")
    if not challenge.startswith("Bearer"):
        return [f"{where}: challenged with {challenge!r}"]
    if "error=" in challenge and not is_sent:
        return [f"{where}: {challenge!r} where no token was sent"]
    return []


PROMISES = (
    Promise(
        16, "Keys, tokens and passwords cannot be read at rest.", p16, "answers are kept in a file"
    ),
    Promise(
        17,
        "Secrets are in no log, error, history or metric.",
        p17,
        "requests are logged with their headers",
    ),
    Promise(18, "Lines of the log cannot be forged.", p18, "the path is logged as it is"),
    Promise(19, "A 401 says how to authenticate.", p19, "a 401 has no WWW-Authenticate header"),
)
