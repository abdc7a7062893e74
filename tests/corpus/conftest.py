"""Where shapes are run."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.corpus.lab import FileLab, ServerLab


@pytest.fixture(name="threads", scope="module")
def _threads() -> Iterator[ThreadPoolExecutor]:
    threads = ThreadPoolExecutor(4)
    yield threads
    threads.shutdown(wait=False, cancel_futures=True)


@pytest.fixture(name="files", scope="module")
def _files(tmp_path_factory: pytest.TempPathFactory, threads: ThreadPoolExecutor) -> FileLab:
    return FileLab(tmp_path_factory.mktemp("corpus"), threads)


@pytest.fixture(name="server", scope="module")
def _server(server_url: str, threads: ThreadPoolExecutor) -> Iterator[ServerLab]:
    server = ServerLab(server_url, threads)
    yield server
    server.close()
