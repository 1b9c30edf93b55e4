"""`labs doctor` on the machines learners come with, told apart from facts alone, and on this one for real."""

import json
import sys

import pytest
from rich.console import Console

from course_lib.course import doctor, doctor_machine
from course_lib.course.doctor_checks import CHECKS, MIN_DRIVER, Weight, numbers
from course_lib.course.doctor_machine import Gpu, Machine, shadowing
from course_lib.course.doctor_phases import Level
from course_lib.exercises import all_exercises

FULL, EMULATED, READ_ONLY = Level.FULL, Level.EMULATED, Level.READ_ONLY
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


def nvidia(name, capability, memory_gb, **facts):
    """A healthy machine with this GPU, as constraints/gpu.txt sets it up."""
    healthy = {"driver": "580.95.05", "torch": "2.11.0", "triton": "3.6.0", "torch_cuda": "13.0"}
    healthy |= {"torch_archs": ARCHS, "cuda_ready": True, "gpus": (Gpu(name, capability, memory_gb),)}
    return Machine(**(healthy | facts))


OLD_DRIVER = nvidia("NVIDIA H100 PCIe", (9, 0), 85.0, driver="550.54.15", cuda_ready=False)
T4 = nvidia("Tesla T4", (7, 5), 15.8)
H100 = nvidia("NVIDIA H100 80GB HBM3", (9, 0), 85.0)
MACHINES = {
    "T4": (T4, [FULL, EMULATED, EMULATED, EMULATED]),
    "RTX 3090": (nvidia("NVIDIA GeForce RTX 3090", (8, 6), 25.4), [FULL, FULL, EMULATED, FULL]),
    "RTX 4090": (nvidia("NVIDIA GeForce RTX 4090", (8, 9), 25.4), [FULL] * 4),
    "L4": (nvidia("NVIDIA L4", (8, 9), 24.2), [FULL] * 4),
    "A100": (nvidia("NVIDIA A100-SXM4-80GB", (8, 0), 85.9), [FULL, FULL, EMULATED, FULL]),
    "H100": (H100, [FULL] * 4),
    "H200": (nvidia("NVIDIA H200", (9, 0), 150.8), [FULL] * 4),
    "MI300X": (
        Machine(
            torch="2.13.0", torch_hip="7.1", cuda_ready=True, gpus=(Gpu("MI300X", (0, 0), 206.0, "gfx942"),)
        ),
        [EMULATED] * 4,
    ),
    "Mac": (Machine(system="Darwin", triton=None), [EMULATED, READ_ONLY, READ_ONLY, READ_ONLY]),
    "Windows": (Machine(system="Windows", triton=None), [EMULATED, READ_ONLY, READ_ONLY, READ_ONLY]),
    "WSL2 with a 4090": (nvidia("NVIDIA GeForce RTX 4090", (8, 9), 25.4, wsl=True), [FULL] * 4),
    "CPU only": (Machine(torch="2.13.0+cpu"), [EMULATED] * 4),
    "no torch": (Machine(torch=None), [READ_ONLY] * 4),
    "old driver": (OLD_DRIVER, [EMULATED] * 4),
}


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_is_told_what_it_can_do_for_each_phase(name):
    machine, levels = MACHINES[name]
    report = doctor.examine(machine)
    assert [ability.level for ability in report.phases] == levels
    assert all(ability.reason for ability in report.phases)
    json.dumps(report.to_json())


@pytest.mark.parametrize("name", ["RTX 3090", "RTX 4090", "L4", "A100", "H100", "H200", "MI300X", "CPU only"])
def test_a_healthy_machine_has_nothing_to_repair(name):
    assert doctor.examine(MACHINES[name][0]).problems == ()


def only(machine):
    """The one problem of a machine, and the report."""
    report = doctor.examine(machine)
    assert len(report.problems) == 1, report.problems
    return report.problems[0], report


PROBLEMS = [  # facts unlike a healthy machine's, weight, words that must be said, words of the next step
    (Machine(python="3.10.12"), Weight.STOPS, ["3.10.12", "3.11"], ["make lab"]),
    (Machine(torch=None), Weight.STOPS, ["torch is not installed"], ["pip install"]),
    (Machine(torch_error="ImportError: libtorch.so"), Weight.STOPS, ["libtorch.so"], ["make clean"]),
    (nvidia("H100", (9, 0), 85.0, torch="2.13.0+cpu", torch_cuda=None, cuda_ready=False), Weight.LIMITS,
     ["CPU build", "H100"], ["TORCH=cuda"]),
    (nvidia("Tesla V100-SXM2-16GB", (7, 0), 16.9), Weight.LIMITS, ["V100", "7.0"], ["7.5"]),
    (nvidia("H100", (9, 0), 85.0, cuda_ready=False), Weight.LIMITS, ["sees no CUDA device"], ["docker"]),
    (Machine(driver="580.95.05"), Weight.LIMITS, ["lists no GPU"], ["nvidia-smi"]),
    (Machine(triton=None), Weight.LIMITS, ["Triton is not installed"], ["pip install"]),
    (Machine(triton=None, system="Darwin"), Weight.LIMITS, ["macOS", "the others can"], ["container"]),
    (Machine(triton=None, system="Windows"), Weight.LIMITS, ["native Windows"], ["WSL2"]),
    (Machine(triton_error="ImportError: libtriton.so"), Weight.LIMITS, ["3.7.1", "libtriton.so"], ["make clean"]),
    (Machine(kernels="compile only", kernels_reason="TRITON_INTERPRET=0 is set and ..."), Weight.LIMITS,
     ["TRITON_INTERPRET=0"], ["Unset"]),
    (Machine(triton="3.6.0", numpy="2.4.0"), Weight.STOPS, ["3.6.0", "2.4.0"], ["numpy<2.4"]),
    (nvidia("H100", (9, 0), 85.0, numpy="2.4.6"), Weight.LIMITS, ["3.6.0", "2.4.6"], ["numpy<2.4"]),
    (Machine(outside=(("torch", ">=2.10", "2.9.1"),)), Weight.LIMITS, ["2.9.1", ">=2.10"], ["make lab"]),
    (Machine(outside=(("nbgrader", "==0.9.6", None),)), Weight.STOPS, ["nbgrader is missing"], ["make lab"]),
    (Machine(kernel="/usr/bin/python3"), Weight.STOPS, ["/usr/bin/python3"], ["ipykernel install"]),
    (Machine(shadows=("/course/work/triton.py",)), Weight.STOPS, ["triton.py"], ["Rename"]),
    (Machine(work_writable=False), Weight.STOPS, ["/course/work"], ["COURSE_HOME"]),
    (Machine(free_gb=1.4), Weight.LIMITS, ["1.4 GB"], ["pip cache purge"]),
    (T4, Weight.NOTE, ["no bf16", "no tensor cores"], ["fp16"]),
    (nvidia("NVIDIA A100", (8, 0), 85.9, bars=((2.0, ("NVIDIA H200",)), (1.5, ("NVIDIA H200",)))), Weight.NOTE,
     ["A100", "3.5", "an NVIDIA H200"], ["check"]),
    (nvidia("RTX 3050", (8, 6), 4.2), Weight.NOTE, ["4.2 GB"], ["memory"]),
    (Machine(alembic=False), Weight.NOTE, ["alembic"], ["activate"]),
    (Machine(unknown=("kernel: NoSuchKernel: python3",)), Weight.NOTE, ["NoSuchKernel"], ["make lab"]),
]  # fmt: skip


@pytest.mark.parametrize(("machine", "weight", "said", "step"), PROBLEMS)
def test_a_problem_is_named_with_its_next_step_and_stops_only_when_it_must(machine, weight, said, step):
    problem, report = only(machine)
    assert problem.weight is weight
    assert report.stops == (weight is Weight.STOPS)
    assert [word for word in said if word not in problem.what] == []
    assert [word for word in step if word not in problem.next_step] == []


def test_a_gpu_on_which_every_bar_was_set_has_nothing_waiting():
    bars = tuple(bar for exercise in all_exercises() for bar in exercise.bars())
    assert bars
    assert doctor.examine(nvidia("NVIDIA H200", (9, 0), 150.8, bars=bars)).problems == ()
    assert doctor_machine.examine_machine().bars == bars


def test_every_check_is_shown_to_find_something():
    """A check that nothing above or below sets off proves nothing."""
    machines = [machine for machine, *_ in PROBLEMS] + [OLD_DRIVER]
    silent = [check.__name__ for check in CHECKS if not any(check(machine) for machine in machines)]
    assert silent == []


@pytest.mark.parametrize(
    ("driver", "cuda", "too_old"),
    [
        ("525.60.13", "12.6", False), ("525.60.12", "12.6", True), ("470.223.02", "12.8", True),
        ("580.65.06", "13.0", False), ("580.65.05", "13.0", True), ("550.54.15", "13.0", True),
        ("575.51.03", "12.8", False), ("610.10", "13.5", False), ("", "13.0", False),
    ],
)  # fmt: skip
def test_a_driver_is_too_old_from_the_published_version_on(driver, cuda, too_old):
    machine = nvidia("A100", (8, 0), 85.0, driver=driver, torch_cuda=cuda, cuda_ready=False)
    problem, report = only(machine)  # else the one problem is "torch sees no CUDA device"
    assert ("too old" in problem.what) == too_old
    assert [ability.level for ability in report.phases] == [EMULATED] * 4
    if too_old:
        assert driver in problem.what
        assert MIN_DRIVER[numbers(cuda)[0]] in problem.what
        # an older CUDA is offered only where it would run
        assert ("CUDA 12.6" in problem.next_step) == (numbers(driver) >= numbers("525.60.13"))


def test_problems_come_worst_first():
    weights = [p.weight for p in doctor.examine(Machine(alembic=False, free_gb=1, torch=None)).problems]
    assert weights == [Weight.STOPS, Weight.LIMITS, Weight.NOTE]


def test_a_mac_is_told_which_exercises_run():
    machine = Machine(system="Darwin", triton=None, without_triton=("1.1", "2.3", "2.9"))
    assert "exercises 2.3, 2.9" in doctor.examine(machine).phases[1].reason


def shown(report, width=100):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(doctor.render(report))
    return console.export_text()


@pytest.mark.parametrize("width", [40, 80, 160])
def test_the_page_shows_levels_problems_and_steps_at_every_width(width):
    text = shown(doctor.examine(MACHINES["old driver"][0]), width)
    flat = " ".join(text.split())
    assert "emulated" in flat
    assert "limits what runs:" in flat
    assert "->" in flat
    assert "Nothing to repair" not in flat
    assert "Nothing to repair." in shown(doctor.examine(H100), width)


def test_this_machine_is_examined_for_real():
    report = doctor.examine()
    machine = report.machine
    assert machine.python == sys.version.split()[0]
    assert machine.prefix == sys.prefix
    assert (machine.torch_error, machine.unknown, machine.outside, machine.kernel) == ("", (), (), "")
    assert not report.stops
    assert machine.kernels in ("cuda", "rocm", "interpreter")
    assert machine.kernels_reason in shown(report, 300)
    assert machine.triton_error == ""
    assert "1.1" in machine.without_triton
    assert json.loads(json.dumps(report.to_json()))["machine"]["torch"] == machine.torch


def test_a_torch_that_does_not_import_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('libcudart.so.13: cannot open')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert doctor_machine._torch() == {"torch_error": "ImportError: libcudart.so.13: cannot open"}


@pytest.mark.parametrize(
    ("file", "error"), [("triton/runtime/jit.py", "ImportError: libtriton.so"), ("triton/other.py", "")]
)
def test_a_triton_that_does_not_import_is_a_sentence(file, error, tmp_path, monkeypatch):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("")
    (tmp_path / "triton" / "__init__.py").write_text("raise ImportError('libtriton.so')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor_machine._torch()
    assert found.get("triton_error", "") == error
    assert (found["kernels"] == "no triton") == (not error)  # something else of that name is told apart


def test_a_torch_that_kills_the_process_is_a_sentence(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import os; os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor_machine._torch()
    assert found["torch_error"]
    assert doctor.examine(Machine(**found)).stops


def test_a_question_that_fails_leaves_the_others_answered(monkeypatch):
    def _kernel():
        raise RuntimeError("no kernelspec")

    monkeypatch.setattr(doctor_machine, "_kernel", _kernel)
    monkeypatch.setattr(doctor_machine, "_torch", dict)
    machine = doctor_machine.examine_machine()
    assert machine.unknown == ("kernel: RuntimeError: no kernelspec",)
    assert machine.free_gb > 0


def test_the_kernel_of_another_environment_is_found(tmp_path, monkeypatch):
    spec = tmp_path / "kernels" / "python3"
    spec.mkdir(parents=True)
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    for program, stranger in ((sys.executable, False), ("/opt/other/bin/python", True), ("python", False)):
        argv = [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (spec / "kernel.json").write_text(
            json.dumps({"argv": argv, "display_name": "p", "language": "python"})
        )
        assert doctor_machine._kernel() == ({"kernel": program} if stranger else {})


def test_what_shadows_a_package_is_found_and_what_does_not_is_left_alone(tmp_path):
    (tmp_path / "triton.py").write_text("")
    (tmp_path / "torch").mkdir()  # no __init__.py: the installed package wins
    (tmp_path / "torchvision").mkdir()
    assert shadowing(tmp_path) == [tmp_path / "triton.py"]
    assert shadowing(tmp_path, installed=lambda name: False) == [tmp_path / "torch", tmp_path / "triton.py"]
    (tmp_path / "torch" / "__init__.py").write_text("")
    assert shadowing(tmp_path) == [tmp_path / "torch", tmp_path / "triton.py"]


def test_a_folder_in_the_working_directory_is_reported(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("")
    monkeypatch.chdir(tmp_path)
    assert doctor_machine._work()["shadows"] == (str(tmp_path / "torch.py"),)


def test_a_driver_without_its_library_is_read_from_the_kernel_module(monkeypatch, tmp_path):
    line = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@host)\n"
    (tmp_path / "version").write_text(line + "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n")
    real = doctor_machine.Path
    monkeypatch.setattr(
        doctor_machine, "Path", lambda path: tmp_path / "version" if "nvidia" in path else real(path)
    )
    assert doctor_machine._silent_driver() == {"driver": "580.95.05"}
