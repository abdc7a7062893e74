"""``python -m tenantry``."""

from tenantry.cli.main import main

main()
