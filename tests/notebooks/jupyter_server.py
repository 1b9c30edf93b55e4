"""JupyterLab on a learner's copy, as `labs start --open` starts it: ready when a block begins, gone after."""

import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from course_lib.course import workspace

START_SECONDS = 30.0
STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Server:
    url: str  # ends without a slash
    token: str
    log: Path
    process: subprocess.Popen

    def address(self, notebook: str) -> str:
        """Where a browser opens `notebook`, a path in the copy; "reset" leaves out earlier tabs."""
        return f"{self.url}/lab/tree/{notebook}?reset&token={self.token}"


@contextmanager
def jupyter_server(copy: Path, private: Path, extra: Sequence[str] = ()) -> Iterator[Server]:
    """Serve `copy`; settings, data and log of this Jupyter live in `private`, not a developer's own.

    Raises RuntimeError, with the end of the log, when the server is not there in START_SECONDS.
    """
    port, token = _free_port(), secrets.token_hex(16)
    address = (f"--ServerApp.port={port}", "--ServerApp.port_retries=0")
    arguments = ("--no-browser", *address, f"--IdentityProvider.token={token}", *extra)
    argv, environ = workspace.lab_command(copy, arguments)
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        environ[f"JUPYTER_{name}"] = str(private / name.lower())
    private.mkdir(parents=True, exist_ok=True)
    log = private / "jupyter.log"
    with log.open("wb") as file:
        streams = {"stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
        process = subprocess.Popen(argv, env=environ, cwd=copy, **streams)
    try:
        server = Server(f"http://127.0.0.1:{port}", token, log, process)
        _wait(server)
        yield server
    finally:
        stop(process)


def stop(process: subprocess.Popen) -> None:
    """End the process and what it started (kernels have sessions of their own): politely, then by force."""
    try:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    process.terminate()  # the server shuts its kernels down
    _, alive = psutil.wait_procs(family, timeout=STOP_SECONDS)
    for member in alive:
        member.kill()
    psutil.wait_procs(alive, timeout=STOP_SECONDS)
    process.wait(STOP_SECONDS)


def _wait(server: Server) -> None:
    who = {"Authorization": f"token {server.token}"}
    request = urllib.request.Request(f"{server.url}/api/status", headers=who)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy on the way to ourselves
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and server.process.poll() is None:
        try:
            with direct.open(request, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    state = "is not ready" if server.process.poll() is None else f"ended with {server.process.returncode}"
    end_of_log = server.log.read_text(errors="replace")[-3000:]
    raise RuntimeError(f"JupyterLab {state}; the end of its log:\n{end_of_log}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
