"""Makes .venv what the course needs, in one command, and in under a second when it is that already.

    python3 tools/setup_env.py lab|dev|clean        TORCH=auto|cuda|cpu|system chooses torch (setup_plan.py)

Standard library only. .venv carries a mark, .course-setup.json: "building" from its first moment, "ready" and
what it was made of at the end. So an interrupted run, a moved clone or a changed pin is seen and mended. A
.venv without a mark is not ours: it is used as it is and never removed, except by `clean`.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import time

import setup_plan as plans
import setup_steps as steps
from setup_failures import SetupError
from setup_steps import PYTHON, ROOT, STAMPS, VENV, read, say

MARK = os.path.join(VENV, ".course-setup.json")
EXTRAS = {"lab": (), "dev": ("dev",)}
SOURCES = ("pyproject.toml", "tools/setup_env.py", "tools/setup_plan.py", "tools/setup_steps.py")


def python_version(name):
    """(3, 12) of the python called `name`, or None when it is not there or does not start."""
    try:
        question = [name, "-c", "import sys; print(*sys.version_info[:2])"]
        out = subprocess.check_output(question, stderr=subprocess.DEVNULL)
        return tuple(int(part) for part in out.decode().split())
    except (OSError, ValueError, subprocess.CalledProcessError):
        return None


def use_a_good_python(argv):
    """Replaces this process where its python is too old, or is .venv's own (which may have to be removed)."""
    target = None
    if sys.version_info[:2] < plans.MIN_PYTHON:
        target = plans.find_python(python_version)
    elif os.path.realpath(sys.prefix) == os.path.realpath(VENV):
        target = os.path.realpath(sys.executable)
    if target:
        os.execvp(target, [target, os.path.abspath(__file__), *argv])


def nvidia_driver():
    """The NVIDIA driver's version, "" when it is there but does not say, None without one (WSL2's counts)."""
    try:
        with open("/proc/driver/nvidia/version", encoding="utf-8") as file:
            words = file.read().split()
        return next((word for word in words if "." in word and word.replace(".", "").isdigit()), "")
    except OSError:
        pass
    wsl = "/usr/lib/wsl/lib"
    smi = shutil.which("nvidia-smi") or shutil.which(os.path.join(wsl, "nvidia-smi"))
    if smi:
        query = [smi, "--query-gpu=driver_version", "--format=csv,noheader"]
        try:
            out = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True).stdout.split()
            return out[0] if out and plans.numbers(out[0]) else ""
        except (OSError, subprocess.SubprocessError):
            return None  # the tool without a driver that answers
    return "" if os.path.isdir(wsl) and any(n.startswith("libcuda.so") for n in os.listdir(wsl)) else None


def write_mark(**fields):
    with open(MARK + ".new", "w", encoding="utf-8") as file:
        json.dump(fields, file)
    os.replace(MARK + ".new", MARK)


def read_mark():
    try:
        return json.loads(read(MARK))
    except (OSError, ValueError):
        return {}


def empty_venv(plan, beside):
    """A new .venv, marked as ours before anything else is in it."""
    if os.path.lexists(VENV):
        say("removing the .venv of an earlier, unfinished or different set-up")
        remove(VENV)
    steps.enough_disk(plan, beside)
    os.mkdir(VENV)
    write_mark(made=True, state="building")
    steps.make_venv(plan)


def setup(extras):
    """Brings .venv up to date. Writes the mark "ready" only when every step has gone well."""
    plan = plans.choose(os.environ.get("TORCH") or "auto", platform.system(), nvidia_driver())
    version = ".".join(str(part) for part in sys.version_info[:2])
    place = plans.fingerprint(ROOT, version, plan.torch, plan.local)
    content = plans.fingerprint(*(read(name) for name in (*SOURCES, plan.constraints)))
    mark = read_mark()
    todo = plans.decide(os.path.lexists(VENV), os.path.exists(PYTHON), mark, place, content, extras)
    if todo == "nothing":
        return
    start = time.monotonic()
    open(steps.LOG, "w", encoding="utf-8").close()
    say(f"Python {version}, TORCH={plan.torch}" + (f" ({plan.remark})" if plan.remark else ""))
    if todo == "update":
        extras = sorted({*extras, *mark.get("extras", ())})
    beside = plans.triton_beside(plan.torch, platform.system(), extras)
    if todo == "build":
        empty_venv(plan, beside)
        made = True
    else:
        made = bool(mark.get("made"))
        write_mark(made=made, state="building")
    constraints = os.path.join(ROOT, plan.constraints)
    if plan.torch == "system":
        constraints = steps.use_system_torch()
    steps.install_torch(plan, constraints)
    steps.install_triton_beside(beside)
    steps.install_course(plan, constraints, extras)
    steps.verify(plan)
    write_mark(made=made, state="ready", place=place, content=content, extras=list(extras))
    say(f"ready in {time.monotonic() - start:.0f} s")


def remove(path):
    """A file, a folder, or a link (not what it points to)."""
    os.remove(path) if os.path.islink(path) or os.path.isfile(path) else shutil.rmtree(path)


def clean():
    """Removes what can be made again. Never work/ (a learner's notebooks) or grading/ (grades)."""
    names = [".venv", ".stamps", "run", "build", "dist", ".pytest_cache", ".ruff_cache", ".hypothesis"]
    found = [os.path.join(ROOT, name) for name in names if os.path.lexists(os.path.join(ROOT, name))]
    for folder, subfolders, _ in os.walk(ROOT):
        found += [os.path.join(folder, name) for name in subfolders if name == "__pycache__"]
        keep_out = {"work", "grading", "shared", *names} if folder == ROOT else set()
        subfolders[:] = [name for name in subfolders if name not in keep_out | {"__pycache__", ".git"}]
    for path in found:
        remove(path)
    print("clean: removed .venv, caches and run/; work/ and grading/ are untouched")


def main(argv):
    if len(argv) != 1 or argv[0] not in (*EXTRAS, "clean"):
        raise SetupError("usage: python3 tools/setup_env.py lab|dev|clean")
    if os.name != "posix":
        raise SetupError("On Windows use WSL2, where everything runs; the README has the steps without make.")
    use_a_good_python(argv)
    if argv[0] == "clean":
        clean()
        return
    import fcntl

    os.makedirs(STAMPS, exist_ok=True)
    with open(os.path.join(STAMPS, "lock"), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another set-up of this clone is running; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)  # and then most likely finds everything done
        steps.held.append(lock.fileno())
        setup(EXTRAS[argv[0]])


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except SetupError as error:
        sys.exit(f"\n{error}")
    except OSError as error:  # a read-only clone, a full disk
        sys.exit(f"\nsetup: {error.strerror or error}: {error.filename or ROOT}. Then run it again.")
    except KeyboardInterrupt:
        sys.exit("\nsetup: interrupted; the next run starts that part again")
