"""``alembic.op`` and ``alembic.context``: modules that forward to one object for each thread."""

import importlib
import threading
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext

from tenantry.migration import alembic_modules
from tenantry.migration.alembic_modules import EnvironmentMissing, OperationsOutside

# By name: what these tests are about is banned everywhere else.
OP: Any = importlib.import_module("alembic.op")
CONTEXT: Any = importlib.import_module("alembic.context")


@pytest.fixture(name="operations")
def _operations() -> Operations:
    engine = sa.create_engine("sqlite://")
    return Operations(MigrationContext.configure(dialect=engine.dialect))


class TestInstalled:
    def test_gives_each_thread_its_own(self):
        found: list[bool] = []
        barrier = threading.Barrier(2, timeout=10)

        def work() -> None:
            mine = MigrationContext.configure(dialect_name="sqlite")
            with alembic_modules.installed(Operations(mine), lambda: None):
                barrier.wait()
                found.append(OP.get_context() is mine and CONTEXT.get_context() is mine)
                found.append(OP.migration_context is mine)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)

        assert found == [True] * 4

    def test_calls_back_when_op_is_used(self, operations: Operations):
        used: list[int] = []

        with alembic_modules.installed(operations, lambda: used.append(1)):
            CONTEXT.is_offline_mode()
            assert used == []
            OP.get_context()

        assert used == [1]

    def test_ends_with_the_block(self, operations: Operations):
        with alembic_modules.installed(operations, lambda: None):
            pass

        with pytest.raises(OperationsOutside):
            OP.get_context()

    def test_survives_a_command_of_alembic(self, operations: Operations):
        with Operations.context(operations.migration_context):
            pass
        alembic_modules.install()

        with pytest.raises(OperationsOutside):
            OP.execute("SELECT 1")

    def test_knows_an_operation_that_is_registered_later(self, operations: Operations):
        @Operations.register_operation("corpus_nothing")
        class _Nothing:
            @classmethod
            def corpus_nothing(cls, operations: Operations) -> str:
                return type(operations).__name__

        with alembic_modules.installed(operations, lambda: None):
            assert OP.corpus_nothing() == "Operations"


class TestEnvironment:
    def test_is_online(self):
        alembic_modules.install()

        assert CONTEXT.is_offline_mode() is False
        assert CONTEXT.get_tag_argument() is None

    @pytest.mark.parametrize("name", ["config", "script", "get_head_revision", "configure"])
    def test_refuses_what_env_py_would_give(self, name: str):
        alembic_modules.install()

        with pytest.raises(EnvironmentMissing, match=name):
            getattr(CONTEXT, name)()

    def test_refuses_the_x_arguments(self):
        alembic_modules.install()

        with pytest.raises(EnvironmentMissing, match="-x arguments"):
            CONTEXT.get_x_argument(as_dictionary=True)
