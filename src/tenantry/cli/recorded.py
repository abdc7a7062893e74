"""The commands as they were recorded in `commands.json`: for help and completion only.

The modules of commands import what the commands do, which takes seconds. Help and completion need
only names and texts. So `make docs` records these, and a test compares them with the commands.
"""

import json
from collections.abc import Callable
from functools import cache
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Any

import typer
from typer._click.shell_completion import CompletionItem
from typer.core import TyperArgument, TyperCommand, TyperOption

from tenantry.cli.commands import with_defaults

FILE = Path(__file__).with_name("commands.json")


def record(command: Any) -> dict[str, Any]:
    """Return *command* and the commands below it, as `commands.json` holds them."""
    context = typer.Context(command)
    found: dict[str, Any] = {
        "help": command.help,
        "parameters": [_record_parameter(one, context) for one in command.params],
    }
    if hasattr(command, "commands"):
        found["commands"] = {
            name: record(one) for name, one in command.commands.items() if not one.hidden
        }
    return found


@cache
def read() -> dict[str, Any]:
    """Return the recorded commands, by their names."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def build(name: str, recorded: dict[str, Any], group: Callable[..., Any]) -> Any:
    """Return a recorded command; *group* makes a group of commands."""
    attributes = {
        "name": name,
        "help": recorded["help"],
        "params": [
            _Argument(one) if one["kind"] == "argument" else _Option(one)
            for one in recorded["parameters"]
        ],
        "rich_markup_mode": None,
        "context_settings": {"help_option_names": ["-h", "--help"]},
    }
    below = recorded.get("commands")
    if below is None:
        return _Command(**attributes)
    commands = {word: build(word, one, group) for word, one in below.items()}
    return group(commands=commands, **attributes)


def _record_parameter(parameter: Any, context: Any) -> dict[str, Any]:
    descriptor = parameter.type_descriptor
    completes = getattr(descriptor.parameter_info, "autocompletion", None)
    found = {
        "kind": parameter.param_type_name,
        "name": parameter.name,
        "nargs": parameter.nargs,
        "options": parameter.opts,
        "opposites": parameter.secondary_opts,
        "is_flag": getattr(parameter, "is_flag", False),
        "is_multiple": parameter.multiple,
        "usage": parameter.get_usage_pieces(context),
        "shown": parameter.get_help_record(context),
        "help": parameter.help,
        "choices": [str(getattr(one, "value", one)) for one in descriptor.choices or ()],
        "completes": completes and f"{completes.__module__}:{completes.__name__}",
    }
    return {name: value for name, value in found.items() if value}


class _Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, and the option of the help text."""
        return with_defaults(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Reject a last argument that would be the value of an option, and prints no help."""
        raise typer.BadParameter("the last argument is the value of an option.", ctx=ctx)


class _Recorded:
    """The part of a parameter that is recorded. It does not convert values."""

    recorded: dict[str, Any]

    def get_help_record(self, _ctx: Any) -> Any:
        shown = self.recorded.get("shown")
        return shown and tuple(shown)

    def get_usage_pieces(self, _ctx: Any) -> Any:
        return self.recorded.get("usage", [])

    def process_value(self, _ctx: Any, value: Any) -> Any:
        return value

    def shell_complete(self, _ctx: Any, incomplete: str) -> list[Any]:
        module, _, function = self.recorded.get("completes", "").partition(":")
        if module:
            found = getattr(import_module(module), function)(incomplete)
        else:
            choices = self.recorded.get("choices", ())
            found = [(one, None) for one in choices if one.startswith(incomplete)]
        return [CompletionItem(value, help=shown) for value, shown in found]


class _Option(_Recorded, TyperOption):
    def __init__(self, recorded: dict[str, Any]) -> None:
        self.recorded = recorded
        pairs = zip_longest(recorded["options"], recorded.get("opposites", ()))
        super().__init__(
            param_decls=[recorded["name"], *("/".join(filter(None, pair)) for pair in pairs)],
            type_descriptor=None,  # type: ignore[arg-type] # it converts values
            is_flag=recorded.get("is_flag", False),
            multiple=recorded.get("is_multiple", False),
            nargs=recorded["nargs"],
            help=recorded.get("help"),
        )


class _Argument(_Recorded, TyperArgument):
    def __init__(self, recorded: dict[str, Any]) -> None:
        self.recorded = recorded
        super().__init__(
            param_decls=[recorded["name"]],
            type_descriptor=None,  # type: ignore[arg-type] # it converts values
            nargs=recorded["nargs"],
            help=recorded.get("help"),
        )
