"""The tree of commands: modules are imported on demand, and errors are printed in one line."""

import asyncio
import gc
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from typer._coercion import RuntimeParam, build_runtime_param
from typer._param_types import coerce_cli_path
from typer.core import TyperCommand, TyperGroup

from tenantry.cli.exit_status import ExitStatus
from tenantry.kit.errors import TenantryError
from tenantry.kit.text import printable

# The last argument of a command that prints a help text.
HELPS = (["-h"], ["--help"])
JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--json", help="Print JSON, with the members of the HTTP API's `data`.")
    ],
)
"""The option that every command has; `printing.output` knows whether it is given."""

Function = TypeVar("Function", bound=Callable[..., Any])


class Commands(typer.Typer):
    """A group of commands. A command can be a coroutine function."""

    def command(self, *args: Any, **kwargs: Any) -> Callable[[Function], Function]:
        """Return the decorator of a command; the arguments are those of Typer."""
        add = super().command(*args, **{"cls": Command, **kwargs})

        def decorate(function: Function) -> Function:
            add(_with_reserved_output(spread(function)))
            return function

        return decorate


def _with_reserved_output(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that runs a command to its end, and reserves standard output for it.

    It has the option `JSON`, as the last one unless the command has it elsewhere.
    """

    @wraps(function)
    def run(*args: Any, as_json: bool, **kwargs: Any) -> Any:
        output = import_module("tenantry.cli.printing.output")  # help needs none of its imports
        with output.reserved(as_json=as_json):
            result = function(*args, **kwargs)
            return asyncio.run(result) if inspect.iscoroutine(result) else result

    parameters = dict(inspect.signature(function).parameters)
    parameters.setdefault(JSON.name, JSON)
    return with_parameters(run, [*parameters.values()])


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command with the options of a parameter that is a dataclass of them, one by one."""
    parameters = inspect.signature(function).parameters.values()
    groups: dict[str, Any] = {
        one.name: one.annotation for one in parameters if is_dataclass(one.annotation)
    }
    if not groups:
        return function

    @wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        for name, group in groups.items():
            names = [one.name for one in fields(group) if one.name in given]
            given[name] = group(**{one: given.pop(one) for one in names})
        return function(*args, **given)

    expanded: list[inspect.Parameter] = []
    for one in parameters:
        group = groups.get(one.name)
        expanded += inspect.signature(group).parameters.values() if group else [one]
    return with_parameters(run, expanded)


def with_parameters(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Let Typer call *function* with *parameters*, whatever its own are, and return it."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    return function


def new_group(description: str = "", *, reading: Commands | None = None) -> Commands:
    """Return a group of commands, with plain help texts and plain errors.

    Args:
        description: The help text. Without one, the group is for a command that is in no group.
        reading: The commands of the same group that only read; see `DeferredCommand`.
    """
    group = Commands(
        help=description,
        # With a callback, a group of one command is still a group.
        callback=(lambda: None) if description else None,
        cls=Group,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    group.registered_commands += reading.registered_commands if reading else ()
    return group


def with_defaults(parameters: list[Any]) -> list[Any]:
    """Return *parameters*, with False as the default of each flag without one.

    Typer imports pydantic to convert any value, which takes longer than the rest of a help text.
    So a value that has its type already, as most have, is not converted, and neither is a path.
    """
    for one in parameters:
        if getattr(one, "is_flag", False) and one.default is None:
            one.default = False
        if (descriptor := one.type_descriptor) is not None:
            lazy = _Conversion(descriptor.parameter_info, descriptor.annotation)
            vars(one)["_runtime_param"] = lazy  # Typer has no public attribute for this
    return parameters


class _Conversion(RuntimeParam):
    """The conversion of the values of a parameter, with pydantic if one is necessary."""

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        info = self.parameter_info
        if type(value) is self.annotation and info.parser is None:
            return value
        if type(value) is str and self.annotation is Path and info.parser is None:
            return coerce_cli_path(Path(value), info, path_type=Path, param=param, ctx=ctx)
        return build_runtime_param(param.type_descriptor).coerce(value, param, ctx)


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, and the option of the help text."""
        return with_defaults(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands. Without a command, it prints its help and exits with `USAGE`."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, and the option of the help text."""
        return with_defaults(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments of the command.

        Raises:
            typer.Exit: There are no arguments.
        """
        if not args and not ctx.resilient_parsing:
            _say(f"{ctx.get_help()}\n")
            raise typer.Exit(ExitStatus.USAGE)
        return super().parse_args(ctx, args)


class DeferredCommand(TyperCommand):
    """A command, or a group of commands, that is imported on demand.

    The help and the completion of the parent group need only its name and its summary.

    Args:
        name: The name of the command.
        summary: The first line of the command's own help.
        module: The name of the module; its `group` contains the command or commands.
        reading: The module with those of the commands that only read, if *module* imports what
            they do not need, such as Alembic. Its `group` is part of that of *module*.
    """

    def __init__(self, name: str, summary: str, module: str, *, reading: str = "") -> None:
        super().__init__(name, help=summary, short_help=summary, rich_markup_mode=None)
        self.module = module
        self.reading = reading

    def load(self, word: str = "") -> Any:
        """Import the module, and return the command itself.

        If *word* is a command that only reads, only the module of these is imported.
        """
        with _without("rich"):  # structlog would draw tracebacks with it; our logs have none
            import_module("structlog")
        with _without("pygments"):  # Mako, which Alembic imports, would colour errors with it
            group = import_module(self.reading).group if self.reading else None
            if group is None or word not in {one.name for one in group.registered_commands}:
                group = import_module(self.module).group
        if not gc.isenabled():
            gc.freeze()  # nothing that was imported is garbage
            gc.enable()
        command = typer.main.get_command(group)
        command.name = self.name
        return command

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return the context of the command itself, with its arguments parsed.

        Help and completion take the recorded command.
        """
        command = self.recorded()
        is_without_command = not args and hasattr(command, "commands")
        if not (extra.get("resilient_parsing") or args[-1:] in HELPS or is_without_command):
            command = self.load(args[0] if args else "")
        return command.make_context(info_name, args, parent, **extra)

    def recorded(self) -> Any:
        """Return the command without what it does: nothing is imported for it."""
        recorded = import_module("tenantry.cli.recorded")
        return recorded.build(self.name, recorded.read()[self.name], Group)


@contextmanager
def _without(package: str) -> Iterator[None]:
    """Refuse to import an optional package, which takes longer than what would import it."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None  # type: ignore[assignment] # the import system's way to refuse
    try:
        yield
    finally:
        del sys.modules[package]


class Root(Group):
    """The root group: any error of a command becomes one line and an exit status."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the arguments of the command.

        Raises:
            typer.Exit: They are not UTF-8, or not valid for the command.
        """
        try:
            "".join(args).encode()
        except UnicodeEncodeError as error:
            print_error("The arguments must be UTF-8 text.")
            raise typer.Exit(ExitStatus.USAGE) from error
        with _errors_in_one_line(ctx):
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command.

        Raises:
            typer.Exit: With the status of the error that the command raised.
        """
        with _errors_in_one_line(ctx):
            return super().invoke(ctx)


@contextmanager
def _errors_in_one_line(ctx: Any) -> Iterator[None]:
    try:
        yield
    except typer.TyperException as error:
        print_error(_explain_usage(error))
        raise typer.Exit(ExitStatus.USAGE) from error
    except TenantryError as error:
        # Imported on demand, because it imports the errors of every layer.
        errors = import_module("tenantry.cli.errors")
        print_error(errors.explain(error, ctx))
        raise typer.Exit(errors.status_of(error)) from error
    except (BrokenPipeError, typer.Exit, typer.Abort):
        raise  # Typer ends the process; the reader of a broken pipe reads no message
    except OSError as error:
        reason = error.strerror or str(error)
        print_error(f"{reason}: {error.filename}" if error.filename else reason)
        raise typer.Exit(ExitStatus.UNUSABLE) from error
    except asyncio.CancelledError as error:
        raise typer.Exit(ExitStatus.INTERRUPTED) from error
    except Exception as error:
        if not import_module("tenantry.db.outage_errors").is_of_database(error):
            raise
        print_error(import_module("tenantry.migration.errors").explain(error))
        raise typer.Exit(ExitStatus.UNUSABLE) from error


def print_error(line: str) -> None:
    """Print one line to stderr, or to stdout if that is closed."""
    _say(f"tenantry: error: {printable(line)}\n")


def _say(text: str) -> None:
    if stream := sys.stderr or sys.stdout:
        stream.write(text)


def _explain_usage(error: Any) -> str:
    """Return one line about what is wrong with the arguments, and how to get help."""
    ctx = getattr(error, "ctx", None)
    message = _all_missing(ctx) if type(error).__name__ == "MissingParameter" else ""
    message = " ".join((message or error.format_message()).split()).removesuffix(".")
    if ctx is None:
        return f"{message}."
    if "extra argument" in message and "pattern" in ctx.params:  # the shell has expanded it
        message += ". Put a pattern in quotes: --glob 'data/*.db'"
    return f"{message}. Help: `{ctx.command_path} --help`."


def _all_missing(ctx: Any) -> str:
    """Return a sentence with every missing parameter: typer names only the first."""
    if ctx is None:
        return ""
    missing = [
        one.get_error_hint()
        for one in ctx.command.params
        if one.required and ctx.params.get(one.name) is None
    ]
    return f"Missing: {', '.join(missing)}." if missing else ""
