"""Jobs that an admin queues over HTTP, and how they end."""

import asyncio
from typing import Any

import httpx

WAIT_SECONDS = 60
JOBS, TENANTS = "/api/admin/jobs", "/api/admin/tenants"


async def ended(admin: httpx.AsyncClient, job_id: str) -> Any:
    """Return a job when it has ended."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            job = (await admin.get(f"{JOBS}/{job_id}")).json()["data"]
            if job["finishedAt"] is not None:
                return job
            await asyncio.sleep(0.05)


async def done(admin: httpx.AsyncClient, path: str, **body: object) -> Any:
    """Queue a job, and return it when it has succeeded."""
    answer = await admin.post(path, json=body)
    assert answer.status_code == 202, answer.text
    queued = answer.json()["data"]
    assert queued["state"] == "queued"
    assert answer.headers["location"] == f"{JOBS}/{queued['id']}"
    job = await ended(admin, queued["id"])
    assert job["error"] is None
    return job
