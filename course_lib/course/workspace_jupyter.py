"""JupyterLab on the learner's copy: without nbgrader's own extensions, and wherever the learner sits.

Why      nbgrader's Validate button calls every score below the full one "failed", and its other buttons are
         the instructor's. They stay on for whoever starts Jupyter at the repository root.
Layout   <work>/.course/jupyter/ is put first on JUPYTER_CONFIG_PATH, so nothing outside the copy is changed
"""

import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .workspace_files import STATE, content, put

SERVER_EXTENSIONS = tuple(
    f"nbgrader.server_extensions.{name}" for name in ("formgrader", "validate_assignment", "assignment_list", "course_list")
)
LAB_EXTENSION = "@jupyter/nbgrader"
LAB_SETTINGS = {
    "@jupyter-widgets/jupyterlab-manager:plugin": {"saveState": True},  # a widget outlives its kernel
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false"},  # no question at the first start
}


def write_settings(work: Path) -> None:
    """Writes the settings where they are missing or differ."""
    off = {"ServerApp": {"jpserver_extensions": dict.fromkeys(SERVER_EXTENSIONS, False)}}
    settings = {"jupyter_server_config.json": off}
    settings["labconfig/page_config.json"] = {"disabledExtensions": {LAB_EXTENSION: True}}
    settings["labconfig/default_setting_overrides.json"] = LAB_SETTINGS
    for name, data in settings.items():
        text = (json.dumps(data, indent=2) + "\n").encode()
        path = work / STATE / "jupyter" / name
        if content(path) != text:
            put(path, text)


def lab_command(
    work: Path, extra: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """(argv, environment) that open JupyterLab on `work`; to be run with `work` as the current folder.

    Not `-m jupyter lab`: that runs the first `jupyter-lab` on PATH, which may belong to another Python.
    """
    environ = dict(os.environ if environ is None else environ)
    argv = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={work}"]
    if not has_display(environ) and "--no-browser" not in extra:
        argv.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in extra:
        argv.append("--allow-root")
    first = str(work / STATE / "jupyter")
    before = environ.get("JUPYTER_CONFIG_PATH")
    environ["JUPYTER_CONFIG_PATH"] = f"{first}{os.pathsep}{before}" if before else first
    environ["COURSE_HOME"] = str(work)  # checks in its notebooks are recorded in this copy
    environ.pop("JUPYTER_NO_CONFIG", None)  # it would switch these settings off with all others
    return [*argv, *extra], environ


def running_at(work: Path) -> str | None:
    """Address of a JupyterLab that already serves this folder, or None."""
    try:
        from jupyter_server.serverapp import list_running_servers

        found = [server for server in list_running_servers() if Path(server.get("root_dir", "")).resolve() == work.resolve()]
    except (ImportError, OSError, ValueError):
        return None
    return f"{found[0]['url']}lab?token={found[0].get('token', '')}" if found else None


def has_display(environ: Mapping[str, str], system: str | None = None) -> bool:
    """True where a browser that Jupyter opens appears before the learner's eyes."""
    if environ.get("SSH_CONNECTION"):
        return False
    if (system or platform.system()) != "Linux" or "WSL_DISTRO_NAME" in environ:
        return True
    return bool(environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY"))


def far_away_hint(environ: Mapping[str, str] | None = None) -> str | None:
    """How to reach JupyterLab from another machine; None where a browser opens by itself."""
    if has_display(os.environ if environ is None else environ):
        return None
    return (
        "No display here, so no browser opens. On this machine: open the address that is printed. "
        "From another: run `ssh -L 8888:localhost:8888 <this machine>` there, with the port of the address, "
        "then open the address"
    )
