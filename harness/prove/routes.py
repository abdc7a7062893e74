"""The level of every route: P39."""

import asyncio
import re

from harness.api import bearer
from harness.fleet.fleets import ENGINES
from harness.prove.calls import Line, each
from harness.prove.isolation import GARBAGE
from harness.prove.promise import Figure, Promise, Stage
from tenantry.api.endpoints import Endpoint
from tenantry.api.table import ENDPOINTS
from testkit.decision_table import level_of


def p39(stage: Stage) -> Figure:
    """Ask every route without credentials, and try to make a route without a level."""
    faults: list[str] = []
    asked = 0
    for engine in ENGINES:
        world = stage.world(engine, 1)
        with stage.serving(world) as process:
            asked += asyncio.run(_ask_every_route(process.port, faults))
    try:
        Endpoint(method="GET", path="/x", handler=each, response=None, summary="x")  # type: ignore[call-arg, arg-type]
        faults.append("a route may be made without a level")
    except TypeError:
        pass
    return Figure(
        done=f"{asked} routes of /openapi.json without credentials and with wrong ones; a route "
        "made without a level",
        found=f"{len(faults)} routes that are open by mistake; without a level there is no route",
        faults=faults,
    )


async def _ask_every_route(port: int, faults: list[str]) -> int:
    async with Line(port) as line:
        described = (await line.get("/openapi.json")).json()
        routes = [
            (method.upper(), path, operation)
            for path, item in described["paths"].items()
            for method, operation in item.items()
            if method in {"get", "post", "put", "patch", "delete"}
        ]
        undescribed = {(one.method, one.path) for one in ENDPOINTS} - {one[:2] for one in routes}
        if undescribed - {("GET", "/openapi.json")}:
            faults.append(f"routes that are not described: {undescribed}")
        for method, path, operation in routes:
            is_open = level_of(path) == "Open"
            if bool(operation.get("security")) == is_open:
                faults.append(f"{method} {path} is described as open: {not is_open}")
            if is_open:
                continue
            real = re.sub(r"\{\w+\}", "01900000-0000-7000-8000-000000000000", path)
            for headers in ({}, {"x-api-key": GARBAGE, **bearer("a.b.c"), "x-mcp-token": "tnm_x"}):
                answer = await line.ask(method, real, headers=headers)
                if answer.status != 401:
                    faults.append(f"{method} {path}: {answer}")
    return len(routes)


PROMISES = (
    Promise(
        39,
        "Every route has a level of access, on every path the same.",
        p39,
        "the list of tenants is open to anyone",
    ),
)
