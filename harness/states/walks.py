"""Walks through the states of tenants on one engine."""

import json
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from harness import postgres
from harness.states.machine import FAR
from harness.states.releases import ReleaseStates, write_revision
from harness.world import SECRET_KEY
from testkit.postgres import find_binaries


def walk(server_url: str, chosen_seed: int, *, walks: int, steps: int) -> Counter[str]:
    """Walk so many times; return what was done, and how often.

    Args:
        server_url: Of a superuser of PostgreSQL; empty for SQLite.
        chosen_seed: Of the choices. Hypothesis shows the steps of a walk that fails.
        walks: How many.
        steps: Of each, at most.

    Raises:
        AssertionError: An answer is another one than the model predicts.
    """

    def place(stack: ExitStack) -> dict[str, str]:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="tenantry-states-")))
        write_revision(folder / "revisions", 1)
        environment = {
            "TENANTRY_TENANT_MIGRATIONS": str(folder / "revisions"),
            "TENANTRY_DATA_DIR": str(folder / "data"),
            "TENANTRY_REQUESTS_PER_MINUTE": "100000000",
            "TENANTRY_LOGIN_TRIES": "100",
            "TENANTRY_TENANT_SERVERS": json.dumps({FAR: server_url or f"sqlite:///{folder}/far"}),
        }
        if server_url:
            environment |= {
                "TENANTRY_CATALOG_URL": postgres.new_catalog(server_url),
                "TENANTRY_SECRET_KEY": SECRET_KEY,
                "TENANTRY_TENANT_SERVER_URL": server_url,
                "TENANTRY_PG_TOOLS": str(find_binaries()),
            }
        return environment

    class Placed(ReleaseStates):
        pass

    Placed.place = staticmethod(place)
    Placed.steps = []
    chosen = settings(
        max_examples=walks,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    try:
        run_state_machine_as_test(seed(chosen_seed)(Placed), settings=chosen)
    except BaseException as error:
        error.add_note(f"make states SEED={chosen_seed:x} WALKS={walks} STEPS={steps}")
        raise
    return Counter(Placed.steps)
