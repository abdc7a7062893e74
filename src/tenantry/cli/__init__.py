"""The command line: each command is a thin function around one coroutine.

`main` contains the table of commands, `commands` imports their modules on demand, and `errors` maps
errors to exit statuses. To add a group, write a module and add a line to the table.
"""
