"""Start Firefox for Playwright, which drives it with WebDriver BiDi.

Run as a program, this is what Playwright starts instead of Firefox: it starts Firefox, and relays
the messages of both. Playwright sets the colour scheme of each context with a command that Firefox
does not have before version 154, and fails without an answer; so the relay answers that command.
Remove this module when the Firefox of Debian has the command.
"""

import asyncio
import json
import re
import shutil
import stat
import sys
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

# As Debian and others call it.
PROGRAMS = ("firefox-esr", "firefox")
UNKNOWN = "emulation.setMediaFeaturesOverride"
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


def install(folder: Path) -> Path | None:
    """Write the program that Playwright starts; return None without Firefox."""
    found = [path for name in PROGRAMS if (path := shutil.which(name))]
    if not found:
        return None
    program = folder / "firefox"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path.insert(0, {str(Path.cwd())!r})\n"
        f"from tests.e2e.firefox import run\nrun({found[0]!r})\n",
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def run(program: str) -> None:
    """Run Firefox with the arguments of this process, until it ends."""
    asyncio.run(_run(program))


async def _run(program: str) -> None:
    firefox = await asyncio.create_subprocess_exec(
        program, *sys.argv[1:], stderr=asyncio.subprocess.PIPE
    )
    assert firefox.stderr is not None
    async for line in firefox.stderr:
        if found := LISTENING.search(line.decode()):
            address = f"{found[1]}/session"
            break
    else:
        sys.exit("Firefox has not started.")

    async def relay(playwright: ServerConnection) -> None:
        async with (
            connect(address, max_size=None, compression=None) as browser,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(_send(playwright, browser))
            group.create_task(_return(browser, playwright))

    async with serve(relay, "127.0.0.1", 0, max_size=None, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        sys.stderr.write(f"WebDriver BiDi listening on ws://127.0.0.1:{port}\n")
        sys.stderr.flush()
        async for line in firefox.stderr:
            sys.stderr.write(line.decode())
        await firefox.wait()


async def _send(playwright: ServerConnection, browser: ClientConnection) -> None:
    async for message in playwright:
        command = json.loads(message)
        if command["method"] == UNKNOWN:
            await playwright.send(
                json.dumps({"type": "success", "id": command["id"], "result": {}})
            )
        else:
            await browser.send(message)
    await browser.close()


async def _return(browser: ClientConnection, playwright: ServerConnection) -> None:
    async for message in browser:
        await playwright.send(message)
    await playwright.close()
