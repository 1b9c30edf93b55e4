"""JupyterLab on the learner's copy runs without nbgrader's own extensions; everywhere else they are on."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from importlib.metadata import files

import pytest

from course_lib.course import release, workspace, workspace_jupyter

from .workspace_helpers import Course, started

NBGRADERS_PAGES = ("/formgrader", "/nbgrader_version?version=0.9.6", "/courses", "/formgraders")


@pytest.fixture
def work(tmp_path, monkeypatch):
    course = Course(tmp_path / "labs")
    monkeypatch.setattr(release, "labs_dir", lambda: course.labs)
    return started(course, tmp_path / "work")


def test_nbgraders_extensions_are_off_in_the_copy_and_on_elsewhere(work, tmp_path, monkeypatch):
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # another jupyter-lab on PATH, or none, makes no difference
    (tmp_path / "root").mkdir()
    ports = [free_port(), free_port()]
    argv, environment = workspace.lab_command(work, options(ports[0]))
    at_root = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", *options(ports[1])]
    log = open(tmp_path / "log", "wb")  # noqa: SIM115
    servers = [
        subprocess.Popen(argv, env=environment, cwd=work, stdout=log, stderr=log),
        subprocess.Popen(at_root, cwd=tmp_path / "root", stdout=log, stderr=log),
    ]
    try:
        disabled, pages = zip(*(ask(port) for port in ports), strict=True)
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(30)
        log.close()
    assert "@jupyter/nbgrader" in disabled[0]
    assert pages[0] == [404] * len(NBGRADERS_PAGES)
    assert "@jupyter/nbgrader" not in disabled[1]
    assert pages[1] == [200] * len(NBGRADERS_PAGES)
    assert f"http://127.0.0.1:{ports[0]}/lab?token=" in (tmp_path / "log").read_text()  # the address is printed


def options(port):
    return [f"--ServerApp.port={port}", "--IdentityProvider.token=abc", "--ServerApp.port_retries=0"]


def free_port():
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


def get(port, page):
    address = f"http://127.0.0.1:{port}{page}{'&' if '?' in page else '?'}token=abc"
    try:
        with urllib.request.urlopen(address, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def ask(port):
    """(lab extensions that are off, status of each of nbgrader's pages), once the server answers."""
    for _ in range(600):
        try:
            _, page = get(port, "/lab")
            break
        except OSError:
            time.sleep(0.1)
    settings = re.search(r'<script id="jupyter-config-data" type="application/json">(.*?)</script>', page, re.DOTALL)
    return json.loads(settings[1])["disabledExtensions"], [get(port, page)[0] for page in NBGRADERS_PAGES]


def test_every_server_extension_of_the_installed_nbgrader_is_switched_off():
    (settings,) = (file for file in files("nbgrader") if file.match("etc/jupyter/jupyter_server_config.d/nbgrader.json"))
    enabled = json.loads(settings.locate().read_text())["ServerApp"]["jpserver_extensions"]
    assert enabled.keys() == set(workspace_jupyter.SERVER_EXTENSIONS)


@pytest.mark.parametrize(
    ("environ", "system", "display"),
    [
        ({}, "Linux", False),
        ({"DISPLAY": ""}, "Linux", False),
        ({"DISPLAY": ":0"}, "Linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "Linux", True),
        ({"DISPLAY": ":10", "SSH_CONNECTION": "10.0.0.1 22"}, "Linux", False),
        ({"WSL_DISTRO_NAME": "Debian"}, "Linux", True),
        ({}, "Darwin", True),
        ({"SSH_CONNECTION": "10.0.0.1 22"}, "Darwin", False),
    ],
)
def test_a_browser_opens_only_where_the_learner_can_see_it(work, environ, system, display, monkeypatch):
    monkeypatch.setattr(workspace_jupyter.platform, "system", lambda: system)
    argv, _ = workspace_jupyter.lab_command(work, environ=environ)
    assert ("--no-browser" in argv) is not display
    assert (workspace_jupyter.far_away_hint(environ) is None) is display


def test_the_learners_own_arguments_and_settings_are_kept(work, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_PATH", "/mine")
    monkeypatch.setenv("JUPYTER_NO_CONFIG", "1")
    argv, environ = workspace.lab_command(work, ["--no-browser", "--port=9999"])
    assert argv[-2:] == ["--no-browser", "--port=9999"]
    assert argv.count("--no-browser") == 1
    assert environ["JUPYTER_CONFIG_PATH"] == f"{work / '.course' / 'jupyter'}{os.pathsep}/mine"
    assert "JUPYTER_NO_CONFIG" not in environ
    assert environ["COURSE_HOME"] == str(work)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "--allow-root" in workspace.lab_command(work)[0]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "--allow-root" not in workspace.lab_command(work)[0]


def test_settings_that_were_lost_are_written_again(work):
    page = work / ".course" / "jupyter" / "labconfig" / "page_config.json"
    page.unlink()
    workspace.lab_command(work)
    assert json.loads(page.read_text())["disabledExtensions"] == {"@jupyter/nbgrader": True}


def test_a_jupyterlab_that_already_serves_the_copy_is_found(tmp_path, monkeypatch):
    from jupyter_server import serverapp

    servers = [
        {"root_dir": str(tmp_path / "other"), "url": "http://localhost:1/", "token": "a"},
        {"root_dir": str(tmp_path / "x" / ".." / "work"), "url": "http://localhost:2/", "token": "b"},
    ]
    (tmp_path / "x").mkdir()
    monkeypatch.setattr(serverapp, "list_running_servers", lambda: iter(servers))
    assert workspace_jupyter.running_at(tmp_path / "work") == "http://localhost:2/lab?token=b"
    assert workspace_jupyter.running_at(tmp_path / "third") is None
