"""What `make` decides and does before anything else runs: which torch, which python, when a set-up is still good.

The decisions are pure and tried in all their cases; the steps run in a copy of the repository in which venv and pip
are played by a stub, so nothing is installed and no network is needed.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from course_lib.course.doctor_checks import MIN_DRIVER

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import setup_plan as plans  # noqa: E402
from setup_failures import SetupError, explain, meaning, tail  # noqa: E402


def pins(name):
    lines = (ROOT / "constraints" / f"{name}.txt").read_text().splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in parsed}


# --- which torch ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "system", "driver", "torch", "local"),
    [
        ("auto", "Linux", None, "cpu", "+cpu"),
        ("auto", "Linux", "", "cuda", ""),  # WSL2, whose version may not be readable
        ("auto", "Linux", "580.65.06", "cuda", ""),
        ("auto", "Linux", "580.65.05", "cuda", "+cu126"),
        ("auto", "Linux", "525.60.13", "cuda", "+cu126"),
        ("auto", "Linux", "525.60.12", "cpu", "+cpu"),  # no CUDA build of torch 2.11 runs with it
        ("auto", "Darwin", None, "cpu", ""),
        ("cpu", "Linux", "580.65.06", "cpu", "+cpu"),
        ("cuda", "Linux", None, "cuda", ""),  # to be copied to a GPU machine
        ("cuda", "Linux", "570.10", "cuda", "+cu126"),
        ("system", "Linux", None, "system", ""),
        ("system", "Darwin", None, "system", ""),
    ],
)
def test_torch_follows_the_wish_the_system_and_the_driver(asked, system, driver, torch, local):
    plan = plans.choose(asked, system, driver)
    assert (plan.torch, plan.local) == (torch, local)
    assert plan.index == (plans.PYTORCH_INDEX + local[1:] if local else "")
    assert plan.constraints == ("constraints/gpu.txt" if torch == "cuda" else "constraints/cpu.txt")
    assert bool(plan.remark) == (local == "+cu126" or (asked, system) == ("auto", "Linux"))


def test_an_unknown_torch_lists_the_known_ones():
    with pytest.raises(SetupError, match=r"rocm.*not known") as caught:
        plans.choose("rocm", "Linux", None)
    assert all(f"TORCH={known}" in str(caught.value) for known in ("auto", "cuda", "cpu", "system"))


def test_cuda_is_refused_where_it_cannot_work():
    with pytest.raises(SetupError, match="macOS"):
        plans.choose("cuda", "Darwin", None)
    with pytest.raises(SetupError, match=r"470\.1.*525\.60\.13.*\n.*TORCH=cpu"):
        plans.choose("cuda", "Linux", "470.1")


def test_setup_and_doctor_agree_on_drivers():
    assert {12: plans.MIN_DRIVER_CUDA12, 13: plans.MIN_DRIVER_CUDA13} == MIN_DRIVER


@pytest.mark.parametrize(
    ("version", "specifier", "inside"),
    [
        ("2.13.0+cpu", ">=2.10,<2.14", True), ("2.9.1", ">=2.10,<2.14", False), ("2.14.0", ">=2.10,<2.14", False),
        ("2.10", ">=2.10.0", True), ("2.11.0a0+git.nv26", ">=2.10,<2.14", True), ("3.6.0", "==3.6.*", True),
        ("3.60.0", "==3.6.*", False), ("2.13", "==2.13.0", True), ("2.13.1", "==2.13.0", False),
    ],
)  # fmt: skip
def test_versions_are_compared_as_numbers(version, specifier, inside):
    assert plans.in_range(version, specifier) == inside


def test_a_system_torch_keeps_its_numpy_and_loses_no_other_pin():
    text = (ROOT / "constraints" / "cpu.txt").read_text()
    lines = plans.for_system_torch(text, "2.3.5", "3.6.0").splitlines()
    names = {re.split(r"[=<>]", line)[0] for line in lines if not line.startswith("#")}
    assert "numpy==2.3.5" in lines
    assert names == {re.split(r"[=<>]", line)[0] for line in text.splitlines() if line[0] != "#"} - {"torch", "triton"}
    assert "numpy<2.4" in plans.for_system_torch(text, "", "3.6.0")
    assert "numpy" not in plans.for_system_torch(text, "", "3.7.1").replace("numpydoc", "")


# --- pins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_everything_the_course_asks_for_is_pinned_inside_its_range(name):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
    pinned = pins(name)
    for requirement in map(Requirement, wanted):
        pin = pinned[canonicalize_name(requirement.name)]
        version = str(pin.specifier).removeprefix("==").replace(".*", ".0")
        assert requirement.specifier.contains(version), f"constraints/{name}.txt has {pin}, pyproject {requirement}"


def test_the_two_pin_files_differ_only_in_torch_triton_and_numpy():
    cpu, gpu = pins("cpu"), pins("gpu")
    different = {name for name in cpu.keys() | gpu.keys() if str(cpu.get(name)) != str(gpu.get(name))}
    assert different == {"torch", "triton", "numpy"}
    assert not gpu["numpy"].specifier.contains("2.4.0")
    assert plans.torch_wish((ROOT / "constraints/cpu.txt").read_text(), "+cpu") == "torch==2.13.0+cpu"
    assert plans.torch_wish((ROOT / "constraints/gpu.txt").read_text(), "+cu126") == "torch==2.11.0+cu126"


@pytest.mark.skipif(
    os.environ.get("CI") != "true" or sys.version_info[:2] != (3, 11), reason="CI's environment is the one pinned"
)
def test_ci_runs_what_is_pinned():
    here = metadata.distributions(path=[sysconfig.get_path("purelib")])  # not what setuptools vendors and puts on sys.path
    installed = {canonicalize_name(d.metadata["Name"]): d.version.partition("+")[0] for d in here}
    pinned = {name: str(pin.specifier).removeprefix("==") for name, pin in pins("cpu").items()}
    assert {name: v for name, v in installed.items() if name in pinned and v != pinned[name]} == {}
    assert set(installed) - set(pinned) <= {"llm-inference-course", "pip", "setuptools"}


# --- which python --------------------------------------------------------------------------------------------------


def test_the_newest_python_on_the_path_is_taken():
    versions = {"python3.13": None, "python3.12": (3, 12), "python3.11": (3, 11)}
    assert plans.find_python(versions.get) == "python3.12"
    assert plans.find_python({"python3.13": (3, 9), "python3.11": (3, 11)}.get) == "python3.11"  # a lying name
    with pytest.raises(SetupError, match=r"3\.11 or newer.*\n.*apt install"):
        plans.find_python(lambda name: None)


# --- when a set-up is good -----------------------------------------------------------------------------------------

READY = {"made": True, "state": "ready", "place": "p", "content": "c", "extras": ["dev"]}


@pytest.mark.parametrize(
    ("exists", "alive", "mark", "extras", "todo"),
    [
        (False, False, {}, (), "build"),
        (True, True, READY, (), "nothing"),  # dev serves lab
        (True, True, READY, ("dev",), "nothing"),
        (True, True, READY | {"extras": []}, ("dev",), "update"),
        (True, True, READY | {"content": "other"}, (), "update"),  # a pin changed
        (True, True, READY | {"place": "other"}, (), "build"),  # moved, or another torch or Python
        (True, True, READY | {"state": "building"}, (), "build"),  # interrupted
        (True, False, READY, (), "build"),  # its Python is gone
        (True, False, {"made": True, "state": "building"}, (), "build"),  # interrupted before there was one
        (True, True, {}, (), "update"),  # someone else's: never removed
        (True, True, READY | {"made": False}, (), "nothing"),
        (True, True, READY | {"made": False, "state": "building"}, (), "update"),
        (True, True, READY | {"made": False, "place": "other"}, (), "update"),
    ],
)
def test_only_what_is_ours_and_wrong_is_built_again(exists, alive, mark, extras, todo):
    assert plans.decide(exists, alive, mark, "p", "c", extras) == todo


def test_a_strangers_dead_environment_is_not_removed_but_named():
    with pytest.raises(SetupError, match="make clean"):
        plans.decide(True, False, {}, "p", "c", ())


def test_a_fingerprint_tells_parts_apart():
    prints = {plans.fingerprint(*parts) for parts in (("a", "b"), ("ab",), ("ab", ""), ("b", "a"), ("a", "b", ""))}
    assert len(prints) == 5


# --- what a failure means ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "word"),
    [
        ("[Errno -2] Name or service not known')': /simple/x/\nERROR: No matching distribution found for x", "network"),
        ("[Errno 111] Failed to establish a new connection: Connection refused", "network"),
        ("ERROR: No matching distribution found for torch==2.13.0+cpu", "torch==2.13.0+cpu"),
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("virtual environment was not created successfully because ensurepip is not available", "python3-venv"),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]", "PIP_CERT"),
        ("ERROR: ResolutionImpossible: for help visit", "PIP_CONSTRAINT"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "cannot be written"),
        ("something new", "again"),
    ],
)
def test_a_failure_is_put_in_one_sentence(output, word):
    assert word in meaning(output)
    assert "\n" not in meaning(output)


def test_the_tail_leaves_out_what_only_repeats():
    output = "first\n\nWARNING: Retrying (Retry(total=3\nLooking in links: /x\n" + "last\n" * 3
    assert tail(output) == "first\nlast\nlast\nlast"
    assert tail(output, 2) == "last\nlast"


def test_of_a_missing_network_only_the_meaning_is_told():
    """pip then adds that versions conflict, which misleads."""
    output = "Name or service not known\nERROR: Cannot install x: conflicting dependencies\nERROR: ResolutionImpossible"
    assert explain(output) == meaning(output)
    assert "something new" in explain("something new")


# --- the steps, with venv and pip played by a stub -----------------------------------------------------------------

STUB = """#!/bin/sh
# plays .venv's python: pip, the look at the machine's own torch, the first import, the list of packages
cd "{switches}"
echo "$*" | tr '\\n' ' ' >> record; echo >> record
no_network() {{ echo "Failed to establish a new connection"; exit 1; }}
case "$*" in
  *"--index-url"*) [ -e own-down ] && no_network ;;
  *"--no-deps torch=="*) [ -e all-down ] && no_network ;;
  *"torch]"*)
    [ -e slow ] && {{ echo $$ > pid; exec sleep 60; }}
    [ -e full ] && {{ echo "Collecting x"; echo "OSError: [Errno 28] No space left on device"; exit 1; }} ;;
  *"torch.__version__"*) [ -e system ] || {{ echo "ModuleNotFoundError: No module named 'torch'" >&2; exit 1; }}
    cat system ;;
  *metadata*) cat packages ;;
esac
exit 0
"""


class Clone:
    """A copy of what the set-up reads, and a python3 whose `-m venv` leaves the stub behind."""

    def __init__(self, folder):
        self.root = folder / "my clone"  # with a space
        for name in ("tools", "constraints"):
            shutil.copytree(ROOT / name, self.root / name, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("Makefile", "pyproject.toml"):
            shutil.copy(ROOT / name, self.root)
        self.switch = folder / "switches"
        self.switch.mkdir()
        (self.switch / "packages").write_text("torch numpy nvidia-ml-py")
        (self.switch / "record").write_text("")
        self.stub = self.switch / "stub"
        self.stub.write_text(STUB.format(switches=self.switch))
        self.stub.chmod(0o755)
        site = folder / "site"  # read by every python that starts with PYTHONPATH=site: replaces `-m venv` only
        (site / "venv").mkdir(parents=True)
        (site / "venv" / "__init__.py").write_text("")
        (site / "venv" / "__main__.py").write_text(
            "import pathlib, shutil, sys\n"
            "bin = pathlib.Path(sys.argv[-1]) / 'bin'\nbin.mkdir(parents=True)\n"
            f"shutil.copy({str(self.stub)!r}, bin / 'python')\n"
        )
        self.env = os.environ | {"PYTHONPATH": str(site), "TORCH": "cpu"}
        # the python that made this environment, so that the set-up does not take itself for one inside .venv
        self.python = os.path.realpath(sys.executable)

    def command(self, what):
        return {"args": [self.python, "tools/setup_env.py", what], "cwd": self.root}

    def setup(self, what="lab", **env):
        return subprocess.run(**self.command(what), env=self.env | env, capture_output=True, text=True, timeout=60)

    def steps(self):
        """What the stub was asked since the last look."""
        lines = [line.rstrip() for line in (self.switch / "record").read_text().splitlines()]
        (self.switch / "record").write_text("")
        return lines

    def mark(self):
        return json.loads((self.root / ".venv" / ".course-setup.json").read_text())


@pytest.fixture
def clone(tmp_path):
    return Clone(tmp_path)


def test_the_first_run_installs_torch_first_and_the_second_does_nothing(clone):
    done = clone.setup()
    assert done.returncode == 0, done.stdout + done.stderr
    installs = [line for line in clone.steps() if "pip install" in line]
    assert "--no-deps torch==2.13.0+cpu --index-url https://download.pytorch.org/whl/cpu" in installs[0]
    assert installs[-1].endswith("my clone[torch]")
    assert clone.mark()["state"] == "ready"
    assert done.stdout.count("\n") == len(done.stdout.splitlines()) <= 8  # a line a step
    again = clone.setup()
    assert (again.returncode, again.stdout, clone.steps()) == (0, "", [])


def test_dev_comes_on_top_and_stays(clone):
    clone.setup("lab")
    clone.steps()
    assert "setup: removing" not in clone.setup("dev").stdout
    assert clone.steps()[-3].endswith("my clone[dev,torch]")
    assert clone.mark()["extras"] == ["dev"]
    assert clone.setup("lab").stdout == ""


@pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux only")
def test_the_other_triton_is_for_tests_and_comes_once(clone):
    clone.setup("lab")
    assert not [line for line in clone.steps() if "--target" in line]
    assert clone.setup("dev").returncode == 0
    (asked,) = [line for line in clone.steps() if "--target" in line]
    folder = clone.root / ".venv" / "triton-3.6"
    assert asked.endswith(f"--no-deps --upgrade --target {folder} triton==3.6.0")
    (folder / "triton-3.6.0.dist-info").mkdir(parents=True)
    (clone.root / "constraints" / "cpu.txt").open("a").write("# changed\n")
    assert clone.setup("dev").returncode == 0
    assert not [line for line in clone.steps() if "--target" in line]


def test_both_supported_tritons_are_pinned_one_beside_the_other():
    assert plans.triton_beside("cpu", "Linux", ("dev",)) == "3.6.0"
    assert plans.triton_beside("cuda", "Linux", ("dev",)) == str(pins("cpu")["triton"].specifier).removeprefix("==")
    assert pins("gpu")["triton"].specifier.contains("3.6.0")
    assert plans.triton_beside("cpu", "Darwin", ("dev",)) == plans.triton_beside("cpu", "Linux", ()) == ""


def test_a_changed_pin_is_installed_in_place(clone):
    clone.setup("dev")
    with open(clone.root / "constraints" / "cpu.txt", "a") as file:
        file.write("# changed\n")
    done = clone.setup("lab")
    assert "removing" not in done.stdout
    assert clone.steps()[-3].endswith("my clone[dev,torch]")  # the extras it had stay


def test_a_moved_clone_is_built_again(clone, tmp_path):
    clone.setup()
    clone.root = clone.root.rename(tmp_path / "elsewhere")
    clone.steps()
    assert "removing the .venv" in clone.setup().stdout
    assert clone.steps()[-3].endswith("elsewhere[torch]")


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_is_repaired_by_the_next(clone, how):
    slow, pid = clone.switch / "slow", clone.switch / "pid"
    slow.touch()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    first = subprocess.Popen(**clone.command("lab"), env=clone.env, **quiet)
    deadline = time.monotonic() + 60
    while not (pid.exists() and pid.read_text().strip()):
        assert time.monotonic() < deadline, "the set-up never reached its long step"
        time.sleep(0.02)
    assert clone.mark() == {"made": True, "state": "building"}
    first.send_signal(how)
    assert first.wait(timeout=30) != 0
    slow.unlink()
    second = subprocess.Popen(**clone.command("lab"), env=clone.env, stdout=subprocess.PIPE, text=True)
    if how is signal.SIGKILL:  # its pip lives on and holds the lock: nobody builds beneath it
        assert "waiting" in second.stdout.readline()
        os.kill(int(pid.read_text()), signal.SIGKILL)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert "removing the .venv" in out
    assert clone.mark()["state"] == "ready"


def test_without_pytorchs_own_index_pips_configured_one_is_asked(clone):
    (clone.switch / "own-down").touch()
    done = clone.setup()
    assert done.returncode == 0
    assert "own index" in done.stdout
    assert "did not work" in done.stdout
    assert any(line.endswith("--no-deps torch==2.13.0+cpu") for line in clone.steps())


def test_without_any_network_one_sentence_says_so_and_the_next_run_repairs(clone):
    for name in ("own-down", "all-down"):
        (clone.switch / name).touch()
    done = clone.setup()
    assert done.returncode == 1
    assert "No package index answers" in done.stderr
    assert "TORCH=system" in done.stderr
    assert "Traceback" not in done.stderr
    (clone.switch / "all-down").unlink()
    assert clone.setup().returncode == 0


def test_a_failed_install_shows_pips_last_lines_and_what_they_mean(clone):
    (clone.switch / "full").touch()
    done = clone.setup()
    assert done.returncode == 1
    assert "Collecting x" in done.stderr
    assert "The disk is full" in done.stderr
    assert "setup.log" in done.stderr


def test_a_cuda_package_in_a_cpu_set_up_is_an_error(clone):
    (clone.switch / "packages").write_text("torch nvidia-cublas nvidia-ml-py")
    done = clone.setup()
    assert done.returncode == 1
    assert "1 CUDA packages" in done.stderr
    assert "nvidia-cublas" in done.stderr
    assert "nvidia-ml-py" not in done.stderr
    assert clone.mark()["state"] == "building"  # asked again, it says so again


def test_an_unknown_torch_touches_nothing(clone):
    done = clone.setup(TORCH="gpu")
    assert done.returncode == 1
    assert "TORCH=system" in done.stderr
    assert not (clone.root / ".venv").exists()


def test_the_machines_own_torch_is_used_and_nothing_of_it_installed(clone):
    (clone.switch / "system").write_text("2.9.1\n3.6.0\n2.3.5\n")
    done = clone.setup(TORCH="system")
    assert done.returncode == 0, done.stderr
    assert "torch 2.9.1 is outside the course's range >=2.10,<2.14" in done.stdout
    assert "using this machine's torch 2.9.1, Triton 3.6.0" in done.stdout
    installs = [line for line in clone.steps() if "pip install" in line]
    assert installs
    assert not any("torch]" in line or "torch==" in line for line in installs)
    assert "numpy==2.3.5" in (clone.root / ".stamps" / "constraints-system.txt").read_text()


def test_a_machine_without_torch_is_told_so(clone):
    done = clone.setup(TORCH="system")
    assert done.returncode == 1
    assert "cannot import torch: ModuleNotFoundError" in done.stderr


def test_someone_elses_environment_is_used_and_never_removed(clone):
    theirs = clone.root / ".venv" / "bin"
    theirs.mkdir(parents=True)
    shutil.copy(clone.stub, theirs / "python")
    (theirs / "their-tool").touch()
    assert clone.setup().returncode == 0
    assert clone.setup(TORCH="cuda").returncode == 0  # another torch would rebuild one of ours
    assert (theirs / "their-tool").exists()


def test_clean_leaves_the_learners_work_and_the_grades(clone):
    clone.setup()
    kept = ["work/phase1/phase1.ipynb", "work/__pycache__/x.pyc", "grading/gradebook.db", "tools/setup_env.py"]
    gone = [".ruff_cache/x", "run/x", "tools/__pycache__/x.pyc", ".stamps/setup.log"]
    for name in [*kept[:3], *gone]:
        (clone.root / name).parent.mkdir(parents=True, exist_ok=True)
        (clone.root / name).touch()
    assert "work/ and grading/ are untouched" in clone.setup("clean").stdout
    assert [name for name in kept if not (clone.root / name).exists()] == []
    assert [name for name in [*gone, ".venv"] if (clone.root / name).exists()] == []


def test_an_unknown_command_lists_the_known_ones(clone):
    done = clone.setup("instal")
    assert done.returncode == 1
    assert "lab|dev|clean" in done.stderr


def test_a_full_disk_is_seen_before_it_is_full(monkeypatch):
    import setup_steps as steps

    monkeypatch.setattr(steps.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 2.9e9))
    steps.enough_disk(plans.choose("system", "Linux", None))
    with pytest.raises(SetupError, match=r"2\.9 GB.*TORCH=cpu fills about 3 GB"):
        steps.enough_disk(plans.choose("cpu", "Linux", None))
    monkeypatch.setattr(steps.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(0, 0, 3.1e9))
    steps.enough_disk(plans.choose("cpu", "Linux", None))
    with pytest.raises(SetupError, match=r"3\.1 GB.*fills about 4 GB"):  # with the other Triton
        steps.enough_disk(plans.choose("cpu", "Linux", None), "3.6.0")


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia"), reason="this machine has a driver of its own")
@pytest.mark.parametrize(("answer", "driver"), [("echo 570.86.10", "570.86.10"), ("echo N/A", ""), ("echo broken; exit 9", None)])
def test_the_driver_is_read_from_nvidia_smi(tmp_path, monkeypatch, answer, driver):
    import setup_env

    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert setup_env.nvidia_driver() == driver


# --- make and CI ---------------------------------------------------------------------------------------------------


def test_make_alone_explains_itself():
    shown = subprocess.run(["make", "-s"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = {line.split()[1] for line in shown.splitlines() if line.startswith("make ")}
    assert targets == {"lab", "test", "run", "build", "bench", "soak", "clean"}
    assert "TORCH=auto" in shown


def ci(folder, programs, **stubs):
    """.ci/run with nothing on PATH but `programs` and stub scripts. (exit status, what was printed)"""
    bin_ = folder / "bin"
    bin_.mkdir()
    for name in ("bash", "sh", "dirname", "env", "mktemp", "tail", "cat", *programs):
        real = os.path.realpath(sys.executable) if name == "python3" else shutil.which(name)
        (bin_ / name).symlink_to(real or shutil.which("true"))
    for name, script in stubs.items():
        (bin_ / name.replace("_", "-")).write_text(f"#!/bin/sh\n{script}\n")
        (bin_ / name.replace("_", "-")).chmod(0o755)
    bash = shutil.which("bash")
    env = {"PATH": str(bin_), "HOME": str(folder)}
    done = subprocess.run([bash, str(ROOT / ".ci/run")], env=env, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


SAYS = 'echo "$@ $CI $TORCH $ARGS"; exit 3'


def test_ci_passes_on_what_make_test_says(tmp_path):
    status, said = ci(tmp_path, ["git", "bwrap", "chromium", "python3"], make=SAYS, apt_get="exit 0", id="echo 0")
    assert (status, "test true cpu" in said, "--durations" in said) == (3, True, True)


def test_ci_installs_what_is_missing_as_root_or_with_sudo(tmp_path):
    apt = 'echo "$@" >> "$HOME/apt"'
    ci(tmp_path, ["git", "python3"], make=SAYS, apt_get=apt, id="echo 1000", sudo='exec "$@"')
    assert (tmp_path / "apt").read_text().splitlines()[0] == "update"
    assert "bubblewrap chromium" in (tmp_path / "apt").read_text()


def test_ci_fails_loudly_without_rights_or_packages(tmp_path):
    status, said = ci(tmp_path, ["git", "python3"], make=SAYS, id="echo 1000")
    assert (status, "no sudo here" in said) == (1, True)
    (tmp_path / "second").mkdir()
    broken = {"make": SAYS, "id": "echo 0", "apt_get": "echo Unable to locate package; exit 100"}
    status, said = ci(tmp_path / "second", ["git", "python3"], **broken)
    assert (status, "Unable to locate package" in said, "could not install" in said) == (1, True, True)
