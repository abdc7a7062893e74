"""The command line door: each command is a thin function around one coroutine.

`main` assembles the groups and holds the table from error to exit status; a new group is
a new module.
"""
