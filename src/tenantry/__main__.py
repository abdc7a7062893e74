"""The command ``tenantry``, also as ``python -m tenantry``."""

import gc
import sys
from importlib import import_module

INTERRUPTED = 130  # as `ExitStatus.INTERRUPTED`, which is not imported yet


def main() -> None:
    """Run the command line; Ctrl-C while it is imported ends it without a traceback."""
    gc.disable()  # it takes a quarter of the time of the imports; `cli.commands` enables it
    try:
        import_module("tenantry.cli.main").main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
