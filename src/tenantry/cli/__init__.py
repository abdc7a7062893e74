"""The command line: each command is a thin function around one coroutine.

`main` holds the table of commands, `commands` loads their modules when they are used, and
`exits` maps errors to exit statuses. A new group is a new module, and a line in `main`.
"""
