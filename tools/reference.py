"""Generate ``docs/reference`` from the code: settings, endpoints, errors, commands, lint rules.

``python -m tools.reference`` writes the pages, and the files of `tools.files`. The tests in
``tests/contracts`` fail if a page is out of date.
"""

import functools
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

import msgspec
import msgspec.inspect as ms
import typer.main
from pydantic import SecretStr
from pydantic.fields import FieldInfo

import tenantry
from tenantry.api.cors import PREFLIGHT_REFUSED
from tenantry.api.endpoints import Endpoint
from tenantry.api.error_responses import FIXED_MESSAGES, INTERNAL_CODE, STATUS, HttpError, code_of
from tenantry.api.openapi import statuses, successes
from tenantry.api.table import ENDPOINTS
from tenantry.cli import errors as cli_errors
from tenantry.cli import main as cli
from tenantry.cli.commands import DeferredCommand
from tenantry.cli.exit_status import ExitStatus
from tenantry.kit import errors
from tenantry.kit.errors import TenantryError
from tenantry.schemas.base import Nothing
from tenantry.settings import PREFIX, Settings
from tools import files, licences, lint_page

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
NOTICE = "<!-- Generated from the code by `make docs`; do not edit. -->"

CATEGORIES = (
    HttpError,
    errors.Invalid,
    errors.Unauthenticated,
    errors.Forbidden,
    errors.NotFound,
    errors.Conflict,
    errors.Unavailable,
)
UNUSABLE = str(int(ExitStatus.UNUSABLE))
# Raised before the server listens, or by the command line only.
NEVER_OVER_HTTP = ("tenantry.cli", "tenantry.settings", "tenantry.services")
# Codes of responses without a class of errors.
OTHER_CODES = (
    f"`{INTERNAL_CODE}` (500, a fault of the service), "
    f"`{PREFLIGHT_REFUSED}` (400, a CORS preflight request that is not allowed)"
)

EXIT_STATUSES = {
    ExitStatus.OK: "The command has succeeded.",
    ExitStatus.TENANTS_FAILED: "A tenant failed, an archive is damaged, or `lint` has findings.",
    ExitStatus.USAGE: "The command was rejected: the message says what to correct.",
    ExitStatus.UNUSABLE: "A setting, database, disk or program cannot be used: see `doctor`.",
    ExitStatus.HOLDING: "A run holds after a wave: continue or cancel it.",
    ExitStatus.INTERRUPTED: "The command was interrupted, or the run continues without it.",
}

Rows = Sequence[Sequence[str]]


def pages() -> dict[str, str]:
    """Return the text of every page, by the name of its file."""
    return {
        "settings.md": _settings_page(),
        "endpoints.md": _endpoints_page(),
        "errors.md": _errors_page(),
        "commands.md": _commands_page(),
        "licences.md": _licences_page(),
        "lint-rules.md": _lint_page(),
    }


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"docs/reference/{name}\n")
    for name, text in files.files().items():
        (files.FOLDER / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{name}\n")


# Licences


def _licences_page() -> str:
    return _page(
        "Licences",
        "The packages in `requirements/extras.lock`, which the container image installs (a "
        "release: without those of the extras `otel` and `s3`), with the licence that each "
        "declares, as an SPDX expression. Tenantry itself is under the Apache License 2.0. "
        "`make sbom` writes those of a release with versions and hashes as a bill of materials "
        "(CycloneDX); `make audit` checks for known vulnerabilities.",
        _table(("package", "licence"), [(f"`{name}`", text) for name, text in licences.rows()]),
    )


# Rules of the linter


def _lint_page() -> str:
    return _page("Lint rules", *lint_page.parts())


# Settings


def setting_names() -> list[str]:
    """Return the names of the settings, as the environment has them."""
    return [PREFIX + name.upper() for name in Settings.model_fields]


def _settings_page() -> str:
    fields = Settings.model_fields.values()
    rows = [
        (f"`{name}`", field.description or "", _default(field), _bounds(field))
        for name, field in zip(setting_names(), fields, strict=True)
    ]
    return _page(
        "Settings",
        "Settings are read once, at the start, from the environment and from a file named `.env` "
        "in the working directory; the environment takes precedence. A name that begins with "
        f"`{PREFIX}` and is not in this table stops the start, so that a mistyped setting is "
        "noticed.",
        _table(("setting", "meaning", "default", "allowed"), rows),
    )


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return "empty" if value in ("", None, {}) else f"`{value}`"


def _bounds(field: FieldInfo) -> str:
    signs = {"ge": "≥", "gt": "&gt;", "le": "≤", "lt": "&lt;", "pattern": "like"}
    found = [
        f"{sign} `{getattr(rule, name)}`"
        for rule in field.metadata
        for name, sign in signs.items()
        if getattr(rule, name, None) is not None
    ]
    choices = [f"`{one}`" for one in get_args(field.annotation) if isinstance(one, str)]
    return ", ".join(found + choices)


# Endpoints


def endpoint_names() -> list[str]:
    """Return ``METHOD /path`` of every endpoint."""
    return [f"{endpoint.method} {endpoint.path}" for endpoint in ENDPOINTS]


def _endpoints_page() -> str:
    types = _Types()
    sections = [_endpoint_section(endpoint, types) for endpoint in ENDPOINTS]
    overview = [
        (f"[{name}](#{anchor(name)})", endpoint.level.name, endpoint.summary)
        for name, endpoint in zip(endpoint_names(), ENDPOINTS, strict=True)
    ]
    return _page(
        "Endpoints",
        "[API conventions](../api-conventions.md) describes what all endpoints have in common: "
        "the envelope, access levels, errors, pages, ids and times. The errors are listed in "
        "[errors.md](errors.md). `GET /openapi.json` is the machine-readable description.",
        "A response marked *bare* has a standard format without the envelope. In addition to the "
        "listed errors, any request can fail with 405 (method), 408 (incomplete body), 429 and "
        "503 (too many connections), 431 (headers over 16 KiB), 500, 501 (transfer coding), or "
        "505 (HTTP version).",
        _table(("endpoint", "level", "description"), overview),
        "## Operations",
        *sections,
        "## Types",
        *types.sections(),
    )


def _endpoint_section(endpoint: Endpoint, types: "_Types") -> str:
    facts = [f"- Level: {endpoint.level.name}; {_headers(endpoint)}"]
    if endpoint.scope is not None:
        facts.append(f"- Scope of an McpToken: `{endpoint.scope}`")
    if endpoint.module is not None:
        facts.append(f"- Module of the tenant: `{endpoint.module}`")
    if endpoint.headers:
        facts.append(f"- Other headers: {', '.join(f'`{one}`' for one in endpoint.headers)}")
    facts.append(f"- Response: {_answers(endpoint, types)}")
    facts.append(f"- Errors: {', '.join(str(int(one)) for one in statuses(endpoint))}")
    parts = [
        f"### {endpoint.method} {endpoint.path}",
        f"{endpoint.summary}.",
        "\n".join(facts),
        _request(endpoint, types),
    ]
    return "\n\n".join(part for part in parts if part)


def _headers(endpoint: Endpoint) -> str:
    shown = {
        b"x-mcp-token": "`X-Mcp-Token`",
        b"x-api-key": "`X-Api-Key`",
        b"authorization": "`Authorization`",
    }
    names = [text for name, text in shown.items() if name in endpoint.level.headers]
    return f"headers: {', '.join(names)}" if names else "no credentials"


def _answers(endpoint: Endpoint, types: "_Types") -> str:
    notes = [" (*bare*)"] if endpoint.is_bare else []
    notes += ["; contains a secret"] if endpoint.holds_secret else []
    texts = [
        _answer(status, found, endpoint, types) for status, found in successes(endpoint).items()
    ]
    return f"{'; or '.join(texts)}{''.join(notes)}"


def _answer(
    status: HTTPStatus, found: Sequence[type[msgspec.Struct]], endpoint: Endpoint, types: "_Types"
) -> str:
    if not found:
        return f"{int(status)}, the message `{endpoint.message}`"
    if Nothing in found:
        return f"{int(status)}, without a body"
    return f"{int(status)}, {' or '.join(types.link(one) for one in found)}"


def _request(endpoint: Endpoint, types: "_Types") -> str:
    if endpoint.request is Nothing:
        return ""
    where = "Body" if endpoint.reads_body else "Query"
    closed = endpoint.request.__struct_config__.forbid_unknown_fields
    note = " (unknown members are rejected: 400)" if closed else ""
    return f"{where}{note}:\n\n{types.request(endpoint.request)}"


class _Types:
    """The structures that were linked, each described in one section."""

    def __init__(self) -> None:
        self._named: dict[str, type[msgspec.Struct]] = {}

    def link(self, type_: type[msgspec.Struct]) -> str:
        """Return a link to the section of a structure."""
        self._named.setdefault(type_.__name__, type_)
        return f"[{type_.__name__}](#{type_.__name__.lower()})"

    def request(self, type_: type[msgspec.Struct]) -> str:
        """Return the members of a request."""
        rows = [
            (f"`{field.encode_name}`", self._name(field.type), _need(field))
            for field in _fields(type_)
        ]
        return _table(("member", "type", "required"), rows)

    def sections(self) -> Iterator[str]:
        """Yield the section of every structure that was named, and of those that they name."""
        done: set[str] = set()
        while left := sorted(self._named.keys() - done):
            done.add(left[0])
            type_ = self._named[left[0]]
            rows = [(f"`{field.encode_name}`", self._name(field.type)) for field in _fields(type_)]
            members = _table(("member", "type"), rows)
            yield f"### {type_.__name__}\n\n{_first_line(type_)}\n\n{members}"

    def _name(self, info: ms.Type) -> str:
        if isinstance(info, ms.Metadata):
            return self._name(info.type)
        if isinstance(info, ms.UnionType | ms.EnumType):
            return " or ".join(self._alternatives(info))
        if isinstance(info, ms.ListType):
            return f"list of {self._name(info.item_type)}"
        if isinstance(info, ms.StructType):
            return self.link(info.cls)
        return _scalar(info)

    def _alternatives(self, info: ms.UnionType | ms.EnumType) -> list[str]:
        if isinstance(info, ms.EnumType):
            return [f"`{one.value}`" for one in info.cls]
        return [self._name(one) for one in info.types]


_SIMPLE: dict[type[ms.Type], str] = {
    ms.AnyType: "anything",
    ms.BoolType: "boolean",
    ms.DateTimeType: "timestamp",
    ms.DictType: "object",
    ms.IntType: "integer",
    ms.NoneType: "null",
    ms.RawType: "object",  # JSON that is decoded later
    ms.StrType: "string",
    ms.UUIDType: "GUID",
}


def _scalar(info: ms.Type) -> str:
    if isinstance(info, ms.LiteralType):
        return " or ".join(f'`"{one}"`' for one in info.values)
    if isinstance(info, ms.IntType) and info.ge is not None:
        return f"integer, ≥ {info.ge}"
    return _SIMPLE[type(info)]


def _fields(type_: type[msgspec.Struct]) -> Sequence[ms.Field]:
    info = ms.type_info(type_)
    assert isinstance(info, ms.StructType)
    return info.fields


def _need(field: ms.Field) -> str:
    if field.required:
        return "yes"
    is_said = field.default not in {None, msgspec.UNSET, msgspec.NODEFAULT}
    default = str(field.default)
    return f"no; `{default.lower() if field.default is False else default}`" if is_said else "no"


# Errors


def error_types() -> list[type[TenantryError]]:
    """Return every error class of Tenantry except the categories, by name."""
    for module in pkgutil.walk_packages(tenantry.__path__, "tenantry."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    found = set[type[TenantryError]]()
    waiting: list[type[TenantryError]] = [TenantryError]
    while waiting:
        below = waiting.pop().__subclasses__()
        found.update(below)
        waiting.extend(below)
    ours = {error for error in found if error.__module__.startswith("tenantry.")}
    return sorted(ours - set(CATEGORIES), key=lambda error: error.__name__)


def _errors_page() -> str:
    every = error_types()
    sections = []
    for category in CATEGORIES:
        rows = [_error_row(error) for error in every if issubclass(error, category)]
        header = ("error", "status", "code", "exit", "message", "declared in")
        message = FIXED_MESSAGES.get(category)
        fixed = f" The message is always: {message}" if message else ""
        sections.append(f"## {category.__name__}\n\n{_first_line(category)}{fixed}")
        sections.append(_table(header, rows))
    return _page(
        "Errors",
        "Each error is a class, declared next to the function that raises it. Its category "
        "determines the status of an HTTP response and the exit status of a command; a few errors "
        "have their own status. A dash means that the error does not occur there.",
        "The message is for people. If a rule can be broken in several ways, the message names "
        "the member and the rule. All 401 have the same message, except a failed login, and so "
        "have all 403: the name of the error, which shows the cause, is only in the log.",
        "The code is the response header `X-Error-Code`, for programs: it stays the same when the "
        "message changes. For a code that it does not know, a client should use the status. "
        "Responses without an error class have a code too: " + OTHER_CODES + ".",
        *sections,
    )


def _error_row(error: type[TenantryError]) -> Sequence[str]:
    return (
        f"`{error.__name__}`",
        _http_status(error),
        f"`{code}`" if (code := http_code(error)) else "-",
        _exit_status(error),
        _first_line(error),
        f"`{error.__module__}`",
    )


def http_code(error: type[TenantryError]) -> str | None:
    """Return the ``X-Error-Code`` of an error; None if no HTTP response has it."""
    return None if _http_status(error) == "-" else code_of(error)


def _http_status(error: type[TenantryError]) -> str:
    if issubclass(error, HttpError):
        return str(int(error.status))
    ends_a_start = issubclass(error, errors.Invalid) and _exit_status(error) == UNUSABLE
    if ends_a_start or error.__module__.startswith(NEVER_OVER_HTTP):
        return "-"
    return str(int(_nearest(error, STATUS)))


def _exit_status(error: type[TenantryError]) -> str:
    if error.__module__.startswith("tenantry.api"):
        return "-"
    return str(int(_nearest(error, cli_errors.STATUS)))


def _nearest(error: type[TenantryError], table: dict[type[TenantryError], Any]) -> Any:
    return next(table[one] for one in error.__mro__ if one in table)


# Commands


@functools.cache
def commands() -> dict[str, Any]:
    """Return every command without subcommands, by its full name."""
    return dict(_walk("tenantry", typer.main.get_command(cli.cli)))


def _walk(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(command, DeferredCommand):
        command = command.load()
    below = getattr(command, "commands", None)
    if below is None:
        yield name, command
        return
    for word, one in below.items():
        if not one.hidden:
            yield from _walk(f"{name} {word}", one)


def _commands_page() -> str:
    found = commands()
    overview = [
        (f"[`{name}`](#{anchor(name)})", _summary(command)) for name, command in found.items()
    ]
    statuses_of_exit = [(f"`{int(one)}`", EXIT_STATUSES[one]) for one in ExitStatus]
    return _page(
        "Commands",
        "Results go to standard output, progress and logs to standard error. `--json` prints the "
        "`data` of the HTTP API. Passwords are entered at a prompt or read from standard input; "
        "they are never arguments. If a new key, link or password cannot be printed, the command "
        "that revokes or replaces it is on standard error. The settings are in "
        "[settings.md](settings.md).",
        _table(("command", "description"), overview),
        "## Exit statuses",
        _table(("status", "meaning"), statuses_of_exit),
        *(_command_section(name, command) for name, command in found.items()),
    )


def _command_section(name: str, command: Any) -> str:
    parameters = [one for one in command.params if "--help" not in one.opts and not _is_hidden(one)]
    arguments = [one for one in parameters if one.param_type_name == "argument"]
    options = [one for one in parameters if one.param_type_name == "option"]
    words = [name, *(_metavar(one) for one in arguments), *(["[OPTIONS]"] if options else [])]
    rows = [
        (f"`{_typed(one)}`", _help_of(one), "yes" if one.required else "no")
        for one in [*arguments, *options]
    ]
    table = [_table(("parameter", "meaning", "required"), rows)] if rows else []
    help_ = " ".join((command.help or "").split())
    return "\n\n".join([f"## {name}", help_, f"    {' '.join(words)}", *table])


def _is_hidden(parameter: Any) -> bool:
    return bool(getattr(parameter, "hidden", False))


def _metavar(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name).strip("[]").upper()
    return name if parameter.required else f"[{name}]"


def _typed(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return _metavar(parameter)
    return "/".join([*parameter.opts, *parameter.secondary_opts])


def _help_of(parameter: Any) -> str:
    words = " ".join((getattr(parameter, "help", None) or "").split())
    default = parameter.default
    is_said = isinstance(default, int | str) and not isinstance(default, bool)
    return f"{words} Default: `{default}`.".strip() if is_said else words


def _summary(command: Any) -> str:
    return " ".join((command.help or "").split()).partition(". ")[0].removesuffix(".")


# Markdown


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *parts]) + "\n"


def _table(header: Sequence[str], rows: Rows) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def anchor(heading: str) -> str:
    """Return the fragment of a heading, by the rules of GitHub."""
    kept = (char for char in heading.lower() if char.isalnum() or char in " -_")
    return "".join(kept).replace(" ", "-")


def _first_line(type_: type[Any]) -> str:
    return (type_.__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    main()
