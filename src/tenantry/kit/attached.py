"""Run a command that does not outlive the process that has started it. This is a program.

Its standard input is a pipe that only that process can write to. When that process dies, even by
SIGKILL, the pipe ends, and all processes of this group are killed. It prints the last bytes of the
output of the command, and exits with its status. With ``WAVE_CHECK_URL`` in the environment, it
sends a request there instead.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

OUTPUT_BYTES_MAX = 2_000
CHUNK_BYTES = 65_536


def _die_with_parent() -> None:
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


def _run(command: list[str]) -> tuple[int, bytes]:
    """Run the command; return its status, and the end of its output."""
    try:
        child = subprocess.Popen(  # noqa: S603 - the operator's command
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
    except OSError as error:
        return 127, (error.strerror or "").encode()
    assert child.stdout is not None
    end = b""
    while chunk := child.stdout.read(CHUNK_BYTES):
        end = (end + chunk)[-OUTPUT_BYTES_MAX:]
    status = child.wait()
    return (status if status >= 0 else 128 - status), end


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: the operator has named one address."""


def _request(url: str, variables: dict[str, str]) -> tuple[int, bytes]:
    """POST the variables as JSON; return 0 if the response is a success, and its start."""
    body = json.dumps(variables).encode()
    request = urllib.request.Request(  # noqa: S310 - the operator's own URL
        url, data=body, headers={"content-type": "application/json"}, method="POST"
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)
    try:
        with opener.open(request) as response:
            return 0, response.read(OUTPUT_BYTES_MAX)
    except urllib.error.HTTPError as error:
        return 1, b"status %d. " % error.code + error.read(OUTPUT_BYTES_MAX)
    except OSError as error:
        return 1, str(getattr(error, "reason", error)).encode()
    except (ValueError, http.client.HTTPException):
        return 1, b"no answer in HTTP"  # the text of these errors can contain the URL


def main() -> None:
    """Run what the arguments, or the environment, say."""
    threading.Thread(target=_die_with_parent, daemon=True).start()
    url = os.environ.pop("WAVE_CHECK_URL", None)  # noqa: TID251 - its own, not settings
    if url is None:
        status, said = _run(sys.argv[1:])
    else:
        named = {key: one for key, one in os.environ.items() if key.startswith("WAVE_")}  # noqa: TID251
        status, said = _request(url, named)
    sys.stdout.buffer.write(said)
    sys.stdout.buffer.flush()
    os._exit(status)  # the thread still reads


if __name__ == "__main__":
    main()
