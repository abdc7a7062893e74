"""Run an application like Tenantry runs its own: the same server, set up alike."""

import gc
from typing import Any

import uvicorn

# As `tenantry.app` has it, so that a ratio does not measure the collector.
GC_THRESHOLD = 50_000


def run(app: Any, port: int, *, lifespan: str = "off") -> None:
    """Serve *app* until SIGTERM."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan=lifespan,  # type: ignore[arg-type]
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        backlog=2048,
    )
