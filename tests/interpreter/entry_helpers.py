"""Children on machines that are not there: their device files, driver library, PCI cards and torch are said, not had."""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

FAKES = """
import builtins, ctypes, json, os, sys
MACHINE = json.loads(sys.argv[1])
exists, listdir, open_file, CDLL = os.path.exists, os.listdir, builtins.open, ctypes.CDLL
PCI = "/sys/bus/pci/devices"
def fake_cdll(name, *args, **kwargs):
    if name != "libcuda.so.1":
        return CDLL(name, *args, **kwargs)
    if not MACHINE["driver"]:
        raise OSError("no driver library on this machine")
def fake_open(path, *args, **kwargs):
    if str(path).startswith(PCI):
        vendor = MACHINE["pci"][str(path).split("/")[-2]]
        if not vendor:
            raise PermissionError(path)
        path = os.path.join(MACHINE["folder"], vendor)
    return open_file(path, *args, **kwargs)
os.path.exists = lambda path: path in MACHINE["files"] if str(path).startswith(("/dev/", "/proc/", "/opt/")) else exists(path)
os.listdir = lambda path=".": list(MACHINE["pci"]) if path == PCI else listdir(path)
ctypes.CDLL, builtins.open = fake_cdll, fake_open
"""


@dataclass(frozen=True)
class Fake:
    """A machine: device files that exist, whether libcuda.so.1 loads, and PCI cards (name -> vendor, None: not readable)."""

    files: tuple[str, ...] = ()
    driver: bool = False
    pci: tuple[tuple[str, str | None], ...] = ()


NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}  # for `environment`: whatever machine this is, none is seen
CPU = Fake()
NVIDIA = Fake(("/dev/nvidiactl",), driver=True)
AMD = Fake(("/dev/kfd",))


def environment(**values):
    """Ours without anything that decides, and with these values; this checkout is what a child imports."""
    drop = ("TRITON_INTERPRET", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "PYTHONPATH")
    path = os.pathsep.join(filter(None, [values.pop("PYTHONPATH", ""), str(ROOT)]))
    return {name: value for name, value in os.environ.items() if name not in drop} | values | {"PYTHONPATH": path}


def python(arguments, cwd, env):
    """Run it -> stdout. Anything on stderr is an error: in nbgrader it costs the cell's points."""
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2000:]
    return done.stdout


def on_machine(fake, code, folder, **values):
    """Run `code` on that machine, then -> what it bound to `found` (JSON)."""
    for _, vendor in fake.pci:
        if vendor:
            (folder / vendor).write_text(vendor + "\n")
    machine = asdict(fake) | {"pci": dict(fake.pci), "folder": str(folder)}
    code = f"{FAKES}\n{code}\nprint(json.dumps(found))"
    return json.loads(python(["-c", code, json.dumps(machine)], folder, environment(**values)).splitlines()[-1])


def fake_torch(folder, version, body="raise AssertionError('torch was imported')"):
    """A torch for PYTHONPATH with this version.py; `body` is its __init__."""
    (folder / "torch").mkdir(parents=True)
    (folder / "torch" / "__init__.py").write_text(body)
    (folder / "torch" / "version.py").write_text(version)
    return str(folder)


def version_file(cuda=None, hip=None):
    """torch/version.py as torch writes it."""
    head = "from typing import Optional\n\n__all__ = ['__version__', 'cuda', 'hip']\n__version__ = '2.13.0'\ndebug = False\n"
    return head + f"cuda: Optional[str] = {cuda!r}\ngit_version = 'a'\nhip: Optional[str] = {hip!r}\nxpu: Optional[str] = None\n"
