"""What is in flight is counted in one object, from the claim to the written outcome."""

from uuid import UUID

import pytest

from tenantry.catalog.runs import MigrationState, Outcome, RunTenant
from tenantry.fleet.in_flight import InFlight
from tenantry.kit.ids import new_id


@pytest.fixture
def in_flight() -> InFlight:
    return InFlight()


def outcome(run_id: UUID, state: MigrationState = MigrationState.SUCCESS) -> Outcome:
    item = RunTenant(
        run_id=run_id,
        tenant_id=new_id(),
        tenant_name="acme",
        database_name="acme",
        server_name="default",
        state=state.value,
        applied=None,
        error=None,
        started_at=None,
        finished_at=None,
    )
    return Outcome(item, None)


class TestInFlight:
    def test_counts_a_tenant_until_its_outcome_is_written(self, in_flight: InFlight):
        ended = outcome(new_id())
        counts = [in_flight.count]

        in_flight.claimed([ended.item])
        counts.append(in_flight.count)
        in_flight.started(ended.item)
        counts.append(in_flight.count)
        in_flight.finished(ended)
        counts.append(in_flight.count)
        in_flight.written([ended])
        counts.append(in_flight.count)

        assert counts == [0, 1, 1, 1, 0]
        assert in_flight.is_idle

    def test_counts_a_released_tenant_no_more(self, in_flight: InFlight):
        first, second = outcome(new_id()).item, outcome(new_id()).item
        in_flight.claimed([first, second])

        in_flight.released(first)

        assert (in_flight.count, in_flight.is_idle) == (1, False)

    def test_only_writes_when_all_tenants_are_finished(self, in_flight: InFlight):
        first, last = outcome(new_id()), outcome(new_id())
        in_flight.claimed([first.item, last.item])
        in_flight.started(first.item)
        in_flight.finished(first)
        before = in_flight.only_writes

        in_flight.started(last.item)
        between = in_flight.only_writes
        in_flight.finished(last)

        assert (before, between, in_flight.only_writes) == (False, False, True)

    def test_has_a_tenant_of_a_run_until_its_outcome_is_written(self, in_flight: InFlight):
        run_id = new_id()
        first, second, other = outcome(run_id), outcome(run_id), outcome(new_id())
        in_flight.claimed([first.item, second.item, other.item])
        in_flight.started(first.item)
        in_flight.finished(first)
        before = set(in_flight.tenants_of(run_id))
        in_flight.written([first])
        in_flight.released(second.item)

        assert before == {first.item.tenant_id, second.item.tenant_id}
        assert not in_flight.tenants_of(run_id)
        assert set(in_flight.tenants_of(other.item.run_id)) == {other.item.tenant_id}

    def test_counts_the_failures_of_each_run_until_they_are_written(self, in_flight: InFlight):
        first, second = new_id(), new_id()
        ended = [outcome(first, MigrationState.FAILED), outcome(second), outcome(first)]
        in_flight.claimed([one.item for one in ended])
        for one in ended:
            in_flight.started(one.item)
            in_flight.finished(one)
        assert [in_flight.failures_unwritten(run) for run in (first, second)] == [1, 0]

        in_flight.written(ended)

        assert [in_flight.failures_unwritten(run) for run in (first, second)] == [0, 0]
        assert in_flight.is_idle

    def test_lists_a_tenant_from_its_start_to_its_end(self, in_flight: InFlight):
        ended = outcome(new_id())
        in_flight.claimed([ended.item])
        before = in_flight.in_work
        in_flight.started(ended.item)
        started = in_flight.in_work
        in_flight.finished(ended)

        assert (before, in_flight.in_work) == ([], [])
        assert [one.tenant_id for one in started] == [ended.item.tenant_id]
        assert started[0].ms >= 0

    def test_keeps_a_stop_when_it_is_reset(self, in_flight: InFlight):
        run_id = new_id()
        failed = outcome(run_id, MigrationState.FAILED)
        in_flight.claimed([failed.item, outcome(run_id).item])
        in_flight.started(failed.item)
        in_flight.finished(failed)
        in_flight.stop()

        in_flight.reset()

        assert in_flight.is_idle
        assert not in_flight.tenants_of(run_id)
        assert in_flight.failures_unwritten(run_id) == 0
        assert in_flight.is_stopping

    def test_lets_its_methods_alone_change_what_it_counts(self, in_flight: InFlight):
        for name in ("count", "is_idle", "is_stopping", "only_writes"):
            with pytest.raises(AttributeError):
                setattr(in_flight, name, 1)
