"""Where credentials and addresses must not count: P40, P41."""

import asyncio
import base64
import itertools
import json
import time

from harness.api import (
    ADMINS,
    HISTORY,
    MIGRATE_ALL,
    MODULES,
    TENANTS,
    as_admin,
    bearer,
    key_of,
    signed_in,
)
from harness.fleet.fleets import ENGINE_NAMES, ENGINES
from harness.prove.calls import Line, request
from harness.prove.promise import Figure, Promise, Stage
from harness.world import World
from tenantry.api.table import ENDPOINTS
from testkit.decision_table import level_of
from testkit.raw_sql import Raw
from testkit.request_samples import body_of, path_of

ATTACHED = "/api/admin/attached-databases"
STREAM_SECONDS_MAX = 5.0


def p40(stage: Stage) -> Figure:
    """Put credentials where they must not count, and watch the stream of a disabled admin."""
    faults: list[str] = []
    notes = []
    asked = 0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world) as process:
            asked += asyncio.run(_use_queries(world, process.port, faults))
            ended = asyncio.run(_watch_until_disabled(world, process.port, faults))
            notes.append(f"{ENGINE_NAMES[engine]}: the stream ended after {ended:.1f} s")
    return Figure(
        done=f"{asked} requests with credentials in the query, in cookies and in forms; pages and "
        "answers searched for cookies; an open stream of an admin who was disabled",
        found=f"{len(faults)} accepted or cookies set; {'; '.join(notes)}",
        faults=faults,
    )


async def _use_queries(world: World, port: int, faults: list[str]) -> int:
    tenant = world.tenants[0]
    tokens = {"Admin": world.admin_token, "Tenant": tenant.users[0].token}
    asked = 0
    async with Line(port) as line:
        for endpoint in ENDPOINTS:
            level = level_of(endpoint.path)
            if level == "Open":
                continue
            token = tokens.get(level, tenant.users[0].token)
            query = (
                f"access_token={token}&authorization=Bearer%20{token}&token={token}"
                f"&x-api-key={tenant.api_key}&api_key={tenant.api_key}&apiKey={tenant.api_key}"
            )
            cookie = f"authorization={token}; access_token={token}; x-api-key={tenant.api_key}"
            path = path_of(endpoint, {})
            for where, headers in ((f"{path}?{query}", {}), (path, {"cookie": cookie})):
                answer = await line.ask(endpoint.method, where, headers=headers)
                asked += 1
                if answer.status != 401:
                    faults.append(f"{endpoint.method} {endpoint.path} with {headers or 'a query'}")
                if "set-cookie" in answer.said:
                    faults.append(f"{path} sets a cookie")
        for path in ("/", "/console", "/console/", "/livez", "/openapi.json"):
            answer = await line.get(path)
            if "set-cookie" in answer.said:
                faults.append(f"{path} sets a cookie")
    return asked


async def _watch_until_disabled(world: World, port: int, faults: list[str]) -> float:
    """Return how long a stream of a run went on after its admin was disabled."""
    admin = as_admin(world)
    account = {"email": "watcher@example.com", "password": "a watcher's long passphrase"}
    async with Line(port) as line:
        made = await line.post(ADMINS, account, headers=admin)
        entered = await line.post("/api/admin/auth/login", account)
        await line.post(MIGRATE_ALL, headers=admin)
        run = (await line.get(HISTORY, headers=admin)).data["items"][0]["id"]
        _keep_open(world, run)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            path = f"{HISTORY}/{run}/events"
            writer.write(request("GET", path, bearer(entered.data["token"])))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.split(b"\r\n")[0] + b" ":
                faults.append(f"the stream did not begin: {head[:80]!r}")
            await asyncio.sleep(1)
            url = f"{ADMINS}/{made.data['id']}"
            assert (await line.ask("PATCH", url, {"isActive": False}, headers=admin)).ok
            began = time.monotonic()
            try:
                async with asyncio.timeout(STREAM_SECONDS_MAX + 5):
                    # The last chunk is empty; the connection itself may be kept.
                    await reader.readuntil(b"\r\n0\r\n\r\n")
            except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
                pass
            took = time.monotonic() - began
        finally:
            writer.transport.abort()
    if took > STREAM_SECONDS_MAX:
        faults.append(f"the stream went on for {took:.1f} s")
    return took


def _keep_open(world: World, run_id: str) -> None:
    """Make a run that has ended one that goes on, so that its stream does."""
    catalog = Raw(world.catalog_url)
    sqlite = catalog.path is not None
    catalog.run(
        "UPDATE migration_run SET finished_at = NULL WHERE id = ?",
        run_id.replace("-", "") if sqlite else run_id,
    )


def p41(stage: Stage) -> Figure:
    """Put the address of a listener into every text and header, and wait for a connection."""
    faults: list[str] = []
    asked = 0
    for engine in ENGINES:
        world = stage.world(engine, 1, users=2)
        with stage.serving(world) as process:
            asked += asyncio.run(_offer_urls(world, process.port, faults))
    return Figure(
        done=f"{asked} requests with the http and postgresql URL of a listener in every member, "
        "Host, X-Forwarded-*, Referer and the jku, x5u and jwk of tokens",
        found=f"{len(faults)} connections to it, or links to it in answers",
        faults=faults,
    )


async def _offer_urls(world: World, port: int, faults: list[str]) -> int:
    connected = 0

    async def accept(_reader: object, writer: asyncio.StreamWriter) -> None:
        nonlocal connected
        connected += 1
        writer.close()

    tenant = world.tenants[0]
    listener = await asyncio.start_server(accept, "127.0.0.1", 0)
    host = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    url, database_url = f"http://{host}/x", f"postgresql://ada:word@{host}/x"
    names = ("x-forwarded-host", "x-forwarded-for", "x-forwarded-proto", "forwarded", "referer")
    names += ("x-original-url", "origin", "x-real-ip")
    asked = 0
    async with Line(port) as line, listener:
        for endpoint, offered in itertools.product(ENDPOINTS, (url, database_url)):
            if endpoint.is_event_stream or endpoint.path == MIGRATE_ALL:
                continue
            if offered == database_url and endpoint.path.startswith(ATTACHED):
                continue  # the only place where an admin names a server
            admin = level_of(endpoint.path) == "Admin"
            headers = as_admin(world) if admin else signed_in(tenant)
            headers |= dict.fromkeys(names, offered) | {"host": "evil-host.example"}
            body: object = None
            path = path_of(endpoint, {"tenantId": tenant.id})
            if endpoint.reads_body:
                sample = body_of(endpoint, login="x@example.com", user_id=tenant.users[1].id)
                body = {k: offered if isinstance(v, str) else v for k, v in sample.items()}
            answer = await line.ask(endpoint.method, path, body, headers=headers)
            asked += 1
            said = answer.raw.decode(errors="replace")
            if "evil-host.example" in said:
                faults.append(f"{endpoint.path} repeats the Host header")
        for header in ({"jku": url}, {"x5u": url}, {"jwk": {"url": url}}, {"kid": url}):
            token = f"{_encoded({'alg': 'EdDSA', **header})}.{_encoded({'iss': url})}.AAAA"
            await line.get(MODULES, headers=key_of(tenant) | bearer(token))
            await line.get(TENANTS, headers=bearer(token))
            asked += 2
        await asyncio.sleep(1)
    faults += [f"{connected} connections to the listener"] if connected else []
    return asked


def _encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


PROMISES = (
    Promise(
        40,
        "No cookies, no credentials in URLs, and streams end with their credential.",
        p40,
        "a token may be in the query",
    ),
    Promise(
        41,
        "Only an admin who attaches a database makes the service connect elsewhere.",
        p41,
        "URLs in requests are fetched",
    ),
)
