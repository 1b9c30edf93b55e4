"""A Jupyter server as Binder starts it, and a notebook run in one of its kernels, both watched for memory."""

import json
import secrets
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ._binder_build import Built, variables

START_SECONDS = 60
CELL_SECONDS = 300
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy on the way to ourselves


@dataclass(frozen=True, slots=True)
class Server:
    url: str  # ends without a slash
    token: str
    process: subprocess.Popen
    runtime: Path  # where Jupyter keeps the kernels' connection files

    def ask(self, path: str, body: dict[str, Any] | None = None) -> tuple[str, Any]:
        """GET or, with a body, POST -> (address after redirects, JSON or text)."""
        head = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with _DIRECT.open(urllib.request.Request(self.url + path, data, head), timeout=60) as reply:
            text = reply.read().decode()
            return reply.url, json.loads(text) if reply.headers.get_content_type() == "application/json" else text


@contextmanager
def server(built: Built, private: Path) -> Iterator[Server]:
    """`binder/start jupyter lab` in the clone, ready; ended with all that it started when the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    token, runtime = secrets.token_hex(16), private / "runtime"
    options = (f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}")
    command = ("bash", "binder/start", "jupyter", "lab", "--no-browser", "--allow-root", *options)
    own = {f"JUPYTER_{name}_DIR": str(private / name.lower()) for name in ("CONFIG", "DATA", "RUNTIME")}
    private.mkdir(parents=True)
    with (private / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=built.clone, env=variables(built.environment) | own, stdout=log, stderr=log, stdin=subprocess.DEVNULL
        )
    started = Server(f"http://127.0.0.1:{port}", token, process, runtime)
    try:
        _wait(started, private / "log")
        yield started
    finally:
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        process.terminate()  # the server shuts its kernels down
        for member in psutil.wait_procs(family, timeout=10)[1]:
            member.kill()


def run_notebook(jupyter: Server, notebook: Path, place: str) -> float:
    """Run the notebook's cells in a kernel of the server, as if it lay at `place` under its root -> seconds.

    Raises RuntimeError with the cell and the message where one ends in an error.
    """
    from jupyter_client.blocking import BlockingKernelClient

    session = {"path": place, "name": "", "type": "notebook", "kernel": {"name": "python3"}}
    kernel = jupyter.ask("/api/sessions", session)[1]["kernel"]["id"]
    client = BlockingKernelClient(connection_file=str(jupyter.runtime / f"kernel-{kernel}.json"))
    client.load_connection_file()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=START_SECONDS)
        start = time.monotonic()
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
            if cell["cell_type"] == "code":
                source = "".join(cell["source"])
                reply = client.execute_interactive(source, timeout=CELL_SECONDS, output_hook=lambda message: None)["content"]
                if reply["status"] != "ok":
                    raise RuntimeError(f"{reply['ename']}: {reply['evalue']} in the cell\n{source}")
        return time.monotonic() - start
    finally:
        client.stop_channels()


def _wait(jupyter: Server, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and jupyter.process.poll() is None:
        try:
            jupyter.ask("/api/status")
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"no Jupyter server; the end of its log:\n{log.read_text(errors='replace')[-3000:]}")
