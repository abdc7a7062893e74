"""Pages of docs/howto, followed command by command with the real programs."""
