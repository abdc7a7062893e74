"""The kinds of work, each with its module: add a new kind here.

One that is queued also has a name and a lane in `catalog.job_queue`. `work.running` says which are
repeated when their process is stopped, and `work.undoing` which when it has died.
"""

from collections.abc import Mapping
from functools import partial

from tenantry.backup import (
    cloning,
    creating,
    drift_check,
    move_undo,
    moving,
    pruning,
    replacing,
    restoring,
    verifying,
    wave_checking,
)
from tenantry.backup.copying import Copying
from tenantry.catalog.job_queue import (
    BACKUP,
    CLONE,
    DRIFT,
    MOVE,
    PRUNE,
    REPLACE,
    RESTORE,
    VERIFY,
    WAVE,
)
from tenantry.catalog.jobs import ADOPT
from tenantry.fleet import adoption
from tenantry.work.job_functions import Kind


def kinds_of(copying: Copying) -> Mapping[str, Kind]:
    """Return the kinds of work, by their names.

    Those that are not named here run in the process that begins them, and leave only a database:
    a new tenant, the removal of one, a template.
    """
    return {
        BACKUP: Kind(run=partial(creating.run, copying)),
        VERIFY: Kind(check=partial(verifying.check, copying), run=partial(verifying.run, copying)),
        RESTORE: Kind(check=partial(restoring.check, copying), run=partial(restoring.run, copying)),
        REPLACE: Kind(
            check=partial(replacing.check, copying),
            run=partial(replacing.run, copying),
            undo=partial(replacing.undo, copying),
        ),
        CLONE: Kind(check=partial(cloning.check, copying), run=partial(cloning.run, copying)),
        MOVE: Kind(
            check=partial(moving.check, copying),
            run=partial(moving.run, copying),
            undo=partial(move_undo.undo, copying),
            end=partial(moving.drop_when_known, copying),
        ),
        PRUNE: Kind(run=partial(pruning.run, copying)),
        DRIFT: Kind(
            check=partial(drift_check.check, copying), run=partial(drift_check.run, copying)
        ),
        WAVE: Kind(
            run=partial(wave_checking.run, copying), undo=partial(wave_checking.undo, copying)
        ),
        ADOPT: Kind(undo=partial(adoption.undo, copying.lifecycle)),
    }
