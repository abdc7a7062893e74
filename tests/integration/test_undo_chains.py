"""Random chains of revisions are undone, and the process is killed at random moments meanwhile."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest

from tenantry.kit.ids import new_id
from tenantry.migration.migrator import Migrator
from tenantry.migration.run_scripts import RunScripts
from tenantry.migration.streams import Stream, Streams
from tenantry.tenant.stream import STREAM
from testkit import raw_sql
from testkit.revisions import AlembicFolder
from tests.integration.conftest import DEADLINE_SECONDS, MakeMigrator
from tests.integration.programs import ROOT
from tests.integration.undoing import Chain, Task

pytestmark = pytest.mark.timeout(2_400)

SEED = 20261127
# 200 for a proof.
COUNT = int(os.environ.get("TENANTRY_TEST_COUNT") or 40)  # noqa: TID251
KILL_EVERY = 10
WITHOUT = "no_such_table"


@dataclass
class Case:
    """A tenant to which a run has applied a chain, and what its undo leads to.

    Attributes:
        moved: Whether it was migrated since, so that it is left as it is.
        before: Its schema and its rows before the run; of one that has moved on, its dump now.
    """

    task: Task
    moved: bool
    count: int
    before: Any


@dataclass(frozen=True)
class Maker:
    """Makes cases in a folder, with new databases."""

    migrator: Migrator
    folder: Path
    new_tenant: Callable[[], str]

    async def make(self, random: Random, number: int) -> Case:
        url, folder = self.new_tenant(), AlembicFolder(self.folder / f"{number:03}")
        chain = Chain(folder, random)
        chain.grow(random.randint(1, 3))
        await self._migrate(url, folder, new_id())
        before = await self.state(url, folder)
        count = random.randint(1, 5)
        chain.grow(count)
        run_id = new_id()
        await self._migrate(url, folder, run_id)
        if moved := random.random() < 0.1:
            chain.grow(1)
            await self._migrate(url, folder, new_id())
        task = Task(str(folder.path), url, str(run_id), str(new_id()))
        return Case(task, moved, count, raw_sql.written(url, without=WITHOUT) if moved else before)

    async def state(self, url: str, folder: AlembicFolder) -> tuple[Any, ...]:
        """Return the schema as a drift check lists it, and the rows."""
        streams = Streams(STREAM, Stream("user", folder.path))
        schema = await self.migrator.read_schema(url, streams)
        return str(schema.revision), set(schema.objects), raw_sql.dump(url).data

    async def check(self, case: Case) -> None:
        """Check that the run was undone exactly, or that nothing has changed."""
        if case.moved:
            assert raw_sql.written(case.task.url, without=WITHOUT) == case.before
            return
        found = await self.state(case.task.url, AlembicFolder(Path(case.task.folder), last=""))
        for now, then in zip(found, case.before, strict=True):
            assert now == then
        sql = "SELECT run_id, stream, revision FROM tenantry_migration_log ORDER BY position"
        log = [(UUID(str(run)), *rest) for run, *rest in raw_sql.rows(case.task.url, sql)]
        undoes, run_id = UUID(case.task.undoes), UUID(case.task.run_id)
        applied = [name for run, _, name in log if run == undoes]
        assert [one for one in log if one[0] == run_id] == [
            (run_id, f"undone {undoes.hex}", name) for name in reversed(applied)
        ]

    async def _migrate(self, url: str, folder: AlembicFolder, run_id: UUID) -> None:
        scripts = RunScripts(Streams(STREAM, Stream("user", folder.path)))
        done = await self.migrator.migrate(url, scripts, run_id=run_id)
        assert done.error is None, done.error


async def undo_with_kills(file: Path, cases: list[Case], random: Random) -> int:
    """Let a program undo all cases, and kill it now and then; return how many kills hit an undo."""
    tasks = json.dumps([asdict(one.task) for one in cases])
    await asyncio.to_thread(file.write_text, tasks)
    done = landed = 0
    while done < len(cases):
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.undoing", str(file), str(done)),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        assert program.stdout is not None
        ends_at = done + random.randint(0, KILL_EVERY)
        while await program.stdout.readline() == b"begins\n":
            if done == ends_at:
                await asyncio.sleep(random.uniform(0, 0.12))
                program.kill()
            line = (await program.stdout.readline()).decode()
            outcome = line.split()
            if not line.endswith("\n"):  # it was killed, perhaps in the middle of a line
                landed += 1
                break
            case = cases[done]
            assert outcome == (["moved", "0"] if case.moved else ["done", str(case.count)])
            done += 1
        await program.wait()
    return landed


@pytest.mark.parametrize("count", [8, pytest.param(COUNT, marks=pytest.mark.slow)])
async def test_random_chains_are_undone_exactly_also_after_kills(
    tmp_path: Path,
    make_migrator: MakeMigrator,
    new_tenant: Callable[[], str],
    count: int,
):
    random = Random(SEED)  # noqa: S311 - a test that can be repeated
    maker = Maker(make_migrator(DEADLINE_SECONDS), tmp_path, new_tenant)
    cases = [await maker.make(random, number) for number in range(count)]

    landed = await undo_with_kills(tmp_path / "tasks.json", cases, random)

    for case in cases:
        await maker.check(case)
    assert landed >= count // 20, "no kill has hit an undo; the test says nothing"
