"""Options that several commands have."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON, as the HTTP API has it in `data`.")]
Page = Annotated[int, typer.Option(min=1, max=2**31 - 1, help="Which page.")]
PageSize = Annotated[
    int, typer.Option(min=1, max=2**31 - 1, help="How many on a page, 100 at most.")
]
PasswordStdin = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from the first line of the input."),
]
