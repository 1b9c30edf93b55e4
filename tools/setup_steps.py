"""The steps that fill .venv: each prints a line with its seconds and leaves its output in .stamps/setup.log.

Every step leaves its part done, or raises SetupError with pip's last lines and a sentence on what they mean.
Not here: which steps, and when (setup_env.py); what to install where (setup_plan.py).
"""

import os
import shutil
import subprocess
import sys
import time

import setup_plan as plans
from setup_failures import SetupError, explain, meaning

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMPS = os.path.join(ROOT, ".stamps")
LOG = os.path.join(STAMPS, "setup.log")
# The lock's descriptor. Children inherit it: a pip that outlives a killed run still keeps others out.
held = []


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def say(text):
    print(f"setup: {text}", flush=True)


def child_env():
    """The environment for pip: without what would send packages elsewhere than into .venv."""
    drop = {
        "PYTHONHOME",
        "PIP_USER",
        "PIP_TARGET",
        "PIP_PREFIX",
        "PIP_ROOT",
        "PIP_REQUIRE_VIRTUALENV",
        "VIRTUAL_ENV",
    }
    return dict({k: v for k, v in os.environ.items() if k not in drop}, PIP_DISABLE_PIP_VERSION_CHECK="1")


def try_step(title, command):
    """Runs the command. The output it left when it failed, "" when all went well."""
    start, live = time.monotonic(), sys.stdout.isatty()
    with open(LOG, "a+", encoding="utf-8", errors="replace") as log:
        log.write(f"\n## {title}\n")
        log.flush()
        begin = log.tell()
        out = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
        child = subprocess.Popen(command, **out, env=child_env(), cwd=ROOT, pass_fds=held)
        try:
            while child.poll() is None:
                if live:
                    print(f"\rsetup: {title:<58}{time.monotonic() - start:4.0f} s", end="", flush=True)
                try:
                    child.wait(timeout=1 if live else None)
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            child.terminate()
            child.wait()
            raise
        log.seek(begin)
        output = log.read()
    ending = "  did not work" if child.returncode else ""
    print(f"{chr(13) if live else ''}setup: {title:<58}{time.monotonic() - start:4.0f} s{ending}", flush=True)
    return (output or f"exit status {child.returncode}") if child.returncode else ""


def step(title, command):
    output = try_step(title, command)
    if output:
        where = "The whole output is in .stamps/setup.log."
        raise SetupError(f"{title}: failed.\n{explain(output)}\n{where}")


def pip(*args):
    return [PYTHON, "-m", "pip", "install", "--progress-bar", "off", *args]


def make_venv(plan):
    """An empty .venv; for TORCH=system one that sees python3's own packages."""
    system = ["--system-site-packages"] if plan.torch == "system" else []
    step("virtual environment", [sys.executable, "-m", "venv", *system, VENV])


def install_torch(plan, constraints):
    """torch where it does not come from the normal index; its dependencies follow with everything else."""
    if not plan.local:
        return
    wish = plans.torch_wish(read(constraints), plan.local)
    # one retry and a short wait: where PyTorch's index is out of reach, that must show within seconds
    own = pip("--no-deps", wish, "--index-url", plan.index, "--retries", "1", "--timeout", "20")
    first = try_step(f"{wish} from PyTorch's own index", own)
    second = first and try_step(f"{wish} from pip's configured index", pip("--no-deps", wish))
    if second:
        other = {
            "cpu": "cuda for the build on the normal index (several GB)",
            "cuda": "cpu to go on without the GPU",
        }
        raise SetupError(
            f"Neither PyTorch's own index nor pip's configured one gave {wish}.\n"
            f"{plan.index}: {meaning(first)}\n"
            f"pip's configured one: {explain(second)}\n"
            f"Or say TORCH=system to use the torch that python3 has, or TORCH={other[plan.torch]}."
        )


def use_system_torch():
    """Makes python3's own torch visible in .venv. The path of the constraints that leave it alone."""
    if sys.prefix != sys.base_prefix:  # python3 is a virtual environment, whose packages venv does not pass on
        where = [PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        inside = subprocess.check_output(where, text=True).strip()
        sites = [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
        with open(os.path.join(inside, "course_system_site.pth"), "w", encoding="utf-8") as file:
            file.write("\n".join(sites) + "\n")
    probe = (
        "import importlib.metadata as m, torch\n"
        "version = lambda name: next((d.version for d in m.distributions(name=name)), '')\n"
        "print(torch.__version__, version('triton'), version('numpy'), sep='\\n')"
    )
    done = subprocess.run([PYTHON, "-c", probe], capture_output=True, text=True, cwd=STAMPS, env=child_env())
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise SetupError(
            f"TORCH=system, but {sys.executable} cannot import torch: {why}\n"
            "Name the python that has it (make PYTHON=/path/to/python3), or leave TORCH out to install it."
        )
    torch, triton, numpy = done.stdout.split("\n")[-4:-1]
    import tomllib

    for line in tomllib.loads(read("pyproject.toml"))["project"]["optional-dependencies"]["torch"]:
        name = line.partition(">=")[0]
        wanted, have = line[len(name) :].partition(";")[0].strip(), {"torch": torch, "triton": triton}[name]
        if have and not plans.in_range(have, wanted):
            say(f"note: this machine's {name} {have} is outside the course's range {wanted}: it may not work")
    say(f"using this machine's torch {torch}, " + (f"Triton {triton}" if triton else "without Triton"))
    path = os.path.join(STAMPS, "constraints-system.txt")
    with open(path, "w", encoding="utf-8") as file:
        file.write(plans.for_system_torch(read("constraints", "cpu.txt"), numpy, triton))
    return path


def install_course(plan, constraints, extras):
    """The course itself, editable, and all it needs at the pinned versions."""
    wanted = [*extras, *([] if plan.torch == "system" else ["torch"])]
    target = ROOT + (f"[{','.join(wanted)}]" if wanted else "")
    # -I beside a system torch: programs such as alembic must lie in .venv, whatever python3 has of its own
    own = ["-I"] if plan.torch == "system" else []
    step("build tools", pip("-c", constraints, *own, "hatchling", "editables"))
    size = "torch with CUDA (about 3 GB), " if plan.torch == "cuda" and not plan.local else ""
    course = pip("-c", constraints, *own, "--no-build-isolation", "-e", target)
    step(f"{size}Jupyter, nbgrader and the rest", course)


def install_triton_beside(version):
    """Another Triton in .venv/triton-3.6, which no import finds; nothing to do where it is already."""
    folder = os.path.join(VENV, "triton-" + ".".join(version.split(".")[:2]))
    if version and not os.path.isdir(os.path.join(folder, f"triton-{version}.dist-info")):
        wish = f"triton=={version}"
        step(f"{wish} (about 190 MB) beside it, for tests", pip("--no-deps", "--upgrade", "--target", folder, wish))


def verify(plan):
    """The library imports, and a CPU set-up holds no CUDA package."""
    step("first import", [PYTHON, "-c", "import course_lib, torch, jupyterlab, nbgrader"])
    names = "import importlib.metadata as m; print(*sorted({d.metadata['Name'] for d in m.distributions()}))"
    found = subprocess.check_output([PYTHON, "-c", names], text=True).split()
    cuda = [name for name in found if name.startswith("nvidia-") and name != "nvidia-ml-py"]
    if plan.torch == "cpu" and cuda:
        raise SetupError(
            f"TORCH=cpu, but .venv holds {len(cuda)} CUDA packages that nothing here uses: "
            f"{', '.join(cuda[:4])} ...\n"
            "Run `make clean` and the same command again; if you want the CUDA build, say TORCH=cuda."
        )


def enough_disk(plan, beside=""):
    """SetupError where the disk has no room for the plan, and for another Triton beside it."""
    free_gb = shutil.disk_usage(ROOT).free / 1e9
    needs_gb = plan.needs_gb + (plans.BESIDE_GB if beside else 0)
    if free_gb < needs_gb:
        raise SetupError(
            f"{free_gb:.1f} GB of disk are free here and TORCH={plan.torch} fills about {needs_gb} GB: "
            "free some and run the same command again."
        )
