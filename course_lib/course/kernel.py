"""The kernel in which the course runs notebooks: this interpreter, whatever a kernelspec says, over private sockets.

A kernelspec named python3 in somebody's home may start another Python, and a learner's notebook may name one that is not here.
Sockets in a folder of our own keep the traffic off the network, and ipykernel's warning about that off the screen.
"""

import os
import shutil
import sys
import tempfile
import weakref
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from ..interpreter.entry import VARIABLE, child_environment

MAX_SOCKET_PATH = 100  # characters; the kernel's limit is 107 on Linux and 103 on macOS


class CourseKernelManager(AsyncKernelManager):
    """For `kernel_manager_class` of nbclient, nbgrader's Execute and papermill."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        folder = tempfile.mkdtemp(prefix="course-kernel-")
        self._remove_folder = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.connection_file = os.path.join(folder, "connection.json")
        if os.name == "posix" and len(folder) + len("/k-5") <= MAX_SOCKET_PATH:
            self.transport, self.ip = "ipc", os.path.join(folder, "k")

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        await super()._async_cleanup_resources(restart)
        if not restart:
            self._remove_folder()

    cleanup_resources = _async_cleanup_resources

    @property
    def kernel_spec(self) -> KernelSpec:
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        chosen = child_environment()  # for a notebook that imports torch or Triton before `lab`
        env = {VARIABLE: chosen[VARIABLE]} if VARIABLE in chosen else {}
        return KernelSpec(argv=argv, env=env, display_name="Python 3 (ipykernel)", language="python")
