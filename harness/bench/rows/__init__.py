"""What is measured: a function for each row, or pair of rows, of the table."""

from collections.abc import Callable, Mapping
from functools import partial

from harness.bench.bench import Bench
from harness.bench.figures import Figure
from harness.bench.rows import (
    assistants,
    blogs,
    commands,
    copies,
    fairness,
    logins,
    memory,
    million,
    provisioning,
    requests,
    versions,
    workers,
)

ROWS: Mapping[str, Callable[[Bench], list[Figure]]] = {
    "profile-postgresql": requests.profile_postgresql,
    "profile-sqlite": requests.profile_sqlite,
    "modules": requests.modules,
    "blog-page": blogs.page,
    "blog-304": blogs.not_modified,
    "blog-100k": blogs.large,
    "posts-versions-sqlite": partial(versions.read, engine="sqlite"),
    "posts-versions-postgresql": partial(versions.read, engine="postgresql"),
    "posts-save-sqlite": partial(versions.save, engine="sqlite"),
    "posts-save-postgresql": partial(versions.save, engine="postgresql"),
    "posts-bytes-sqlite": partial(versions.copy, engine="sqlite"),
    "posts-bytes-postgresql": partial(versions.copy, engine="postgresql"),
    "mcp": assistants.get_post,
    "logins": logins.logins,
    "storm": logins.storm,
    "workers": workers.workers,
    "fair-share": fairness.one_loud_tenant,
    "provision-postgresql": provisioning.on_postgresql,
    "provision-sqlite": provisioning.on_sqlite,
    "memory-sqlite": memory.on_sqlite,
    "memory-postgresql": memory.on_postgresql,
    "million-sqlite": million.on_sqlite,
    "million-postgresql": million.on_postgresql,
    "copies-sqlite": copies.on_sqlite,
    "copies-postgresql": copies.on_postgresql,
    "commands": commands.on_sqlite,
}
