"""A program: ``tenantry``, killed before or after its first call of a function.

Its arguments: `before` or `after`, a module, a function of it, and those of the command.
"""

import importlib
import os
import signal
import sys
from typing import Any

from tenantry.cli.main import main
from testkit.faults import Faults


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    when, module, name = sys.argv[1:4]
    faults = Faults()
    add = {"before": faults.before, "after": faults.after}[when]
    add(importlib.import_module(module), name, die)
    del sys.argv[1:4]
    main()
