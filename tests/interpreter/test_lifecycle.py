"""When the interpreter is on, what it patches, and that it takes everything back; kernels from wherever learners write them."""

import importlib
import importlib.util
import os
import pickle
import signal
import sys
import textwrap
import threading
import zipfile

import pytest
import torch
import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import GridExecutor, InterpretedFunction, InterpreterBuilder

from course_lib import interpreter
from course_lib.interpreter import after_import, hooks, launch, settings, versions
from course_lib.interpreter.mistakes.faults import KernelMistake
from course_lib.interpreter.source import language

from .entry_helpers import NO_GPU, ROOT, environment, python
from .faults import bounds
from .faults.told import checks_on

OWNERS = {
    "tl": tl, "tl.core": tl.core, "tl.math": tl.math, "tl.standard": tl.standard, "tl.tensor": tl.tensor, "tl.dtype": tl.dtype,
    "descriptor": tl.core.tensor_descriptor_base, "libdevice": importlib.import_module("triton.language.extra.libdevice"),
    "cuda": importlib.import_module("triton.language.extra.cuda.libdevice"),
    "torch": torch, "Tensor": torch.Tensor, "InterpretedFunction": InterpretedFunction, "Autotuner": Autotuner,
    "GridExecutor": GridExecutor, "InterpreterBuilder": InterpreterBuilder,
}  # fmt: skip
MADE_WHEN_ASKED = ("__dict__", "__weakref__", "__annotations__")
SWITCHED = {"InterpretedFunction", "Autotuner", "torch", "Tensor"}  # what stays patched between launches


@pytest.fixture(autouse=True)
def _as_found():
    """Each test starts switched off; what held before it holds again afterwards."""
    was_on, before = interpreter.enabled(), (settings.now().checks, settings.now().target)
    interpreter.disable()
    yield
    interpreter.disable()
    if was_on:
        interpreter.enable(before[0], target=before[1])


def snapshot():
    return {name: dict(vars(owner)) for name, owner in OWNERS.items()}


def changed(before):
    """What is not as in the snapshot: (owner, name) pairs."""
    after = snapshot()
    names = {(owner, name) for owner in OWNERS for name in before[owner].keys() | after[owner].keys()}
    nothing = object()
    return {(o, n) for o, n in names if before[o].get(n, nothing) is not after[o].get(n, nothing) and n not in MADE_WHEN_ASKED}


def copied(start=0):
    out = torch.zeros(4)
    bounds.load_kernel[(1,)](torch.arange(8.0), out, start, BLOCK=4)
    return out.tolist()


@triton.jit
def _doubled(x):
    return x + x


@triton.jit
def doubling_kernel(x_ptr, out_ptr):
    tl.store(out_ptr, _doubled(tl.load(x_ptr)))


def doubled(value=3.0):
    out = torch.zeros(1)
    doubling_kernel[(1,)](torch.tensor([value]), out)
    return out.item()


# -- patches -----------------------------------------------------------------------------------------------------------


def run_well():
    assert copied() == [0, 1, 2, 3]
    assert doubled() == 6


def run_into_a_mistake():
    with pytest.raises(KernelMistake, match=r"cannot load from x_ptr"):
        copied(6)


def run_into_an_error():
    with pytest.raises(TypeError):
        bounds.load_kernel[(1,)](torch.zeros(4), torch.zeros(4))


def run_until_interrupted():
    def interrupt(*_):
        signal.raise_signal(signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(launch, "program_index", interrupt)
        with pytest.raises(KeyboardInterrupt):
            copied()


@pytest.mark.parametrize(
    "run", [run_well, run_into_a_mistake, run_into_an_error, run_until_interrupted], ids=lambda f: f.__name__
)
def test_a_launch_leaves_the_language_as_it_was_and_switching_off_leaves_everything(run):
    before = snapshot()
    interpreter.enable()
    assert {owner for owner, _ in changed(before)} <= SWITCHED
    switched = changed(before)
    run()
    assert changed(before) == switched
    run_well()
    interpreter.disable()
    assert changed(before) == set()
    with interpreter.ledger(checks=interpreter.Checks()):
        run()
    assert changed(before) == set()


@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupt_at_the_end_of_a_launch_costs_no_later_one(monkeypatch, times):
    before = snapshot()
    restore, left = language.restore, [times]

    def interrupted():
        left[0] -= 1
        if left[0] >= 0:
            raise KeyboardInterrupt
        restore()

    with checks_on():
        monkeypatch.setattr(language, "restore", interrupted)
        with pytest.raises(KeyboardInterrupt):
            copied()
        run_well()
        run_into_a_mistake()
    assert changed(before) == set()


def test_an_interrupt_at_the_end_of_a_block_closes_it(monkeypatch):
    before, remove, left = snapshot(), settings.remove, [1]

    def interrupted(block):
        left[0] -= 1
        if left[0] >= 0:
            raise KeyboardInterrupt
        remove(block)

    monkeypatch.setattr(settings, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt), interpreter.ledger():
        run_well()
    assert settings.counting() == []
    assert changed(before) == set()


@pytest.mark.parametrize("place", ["push", "apply"])
def test_an_interrupt_while_a_block_opens_leaves_none_open(monkeypatch, place):
    before, push, patch = snapshot(), settings.push, hooks.guarded

    def interrupted(block):
        push(block)
        raise KeyboardInterrupt

    def interrupted_once(run):
        monkeypatch.setattr(hooks, "guarded", patch)
        raise KeyboardInterrupt

    if place == "push":
        monkeypatch.setattr(settings, "push", interrupted)
    else:
        monkeypatch.setattr(hooks, "guarded", interrupted_once)
    with pytest.raises(KeyboardInterrupt), interpreter.ledger():
        pass
    assert settings.counting() == []
    assert changed(before) == set()


def test_what_tritons_own_interpreter_leaves_behind_is_no_obstacle_and_stays():
    assert doubled() == 6  # the stock interpreter does not take its patches back after a helper
    before = snapshot()
    with checks_on():
        run_well()
        run_into_a_mistake()
    assert changed(before) == set()
    assert doubled() == 6


def test_importing_it_patches_nothing():
    code = """
    import os; os.environ["TRITON_INTERPRET"] = "1"
    import torch, triton, triton.language as tl
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.interpreter import InterpretedFunction
    owners = (torch, torch.Tensor, tl, tl.core, tl.tensor, InterpretedFunction, Autotuner)
    before = [dict(vars(owner)) for owner in owners]
    import course_lib.interpreter
    from course_lib.interpreter import launch, switch
    from course_lib.interpreter.mistakes import canary
    course_lib.interpreter.enable
    after = [dict(vars(owner)) for owner in owners]
    for owner, old, new in zip(owners, before, after):
        differs = {name for name in old.keys() | new.keys() if old.get(name) is not new.get(name)}
        print(owner.__name__, sorted(differs - {"__dict__", "__weakref__", "extra"}))
    """
    out = python(["-c", textwrap.dedent(code)], ROOT, environment())
    assert all(line.endswith("[]") for line in out.splitlines()), out
    assert len(out.splitlines()) == 7


def test_switching_twice_is_switching_once():
    before = snapshot()
    interpreter.enable()
    interpreter.enable(interpreter.Checks(races=False))
    assert interpreter.enabled()
    interpreter.disable()
    interpreter.disable()
    assert not interpreter.enabled()
    assert changed(before) == set()


def test_a_ledger_inside_leaves_the_checks_on_as_they_were():
    with checks_on(races=False):
        with interpreter.ledger() as book:
            copied()
        assert settings.now().checks == interpreter.Checks(races=False)
        run_into_a_mistake()
    assert len(book.launches) == 1


def test_an_unknown_triton_runs_its_own_interpreter_and_is_told(monkeypatch):
    before = snapshot()
    monkeypatch.setattr(triton, "__version__", "3.9.0")
    monkeypatch.setattr(after_import, "refusal", "")
    says = "Triton 3.9.0 is not known to the course's interpreter (known: 3.6 and 3.7)"
    assert interpreter.enable().startswith(says)
    after_import._enable()
    assert after_import.refusal.startswith(says)
    assert changed(before) - {("tl", "__version__")} == set()
    assert copied() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="is not known"), interpreter.ledger():
        pass


@pytest.mark.parametrize(("version", "known"), [
    ("3.7.1", True), ("3.6.0", True), ("3.7.0+git12", True), ("3.70.1", False), ("3.5.1", False), ("4.0.0", False), ("?", False),
])  # fmt: skip
def test_versions_are_known_by_their_first_two_numbers(version, known):
    assert (versions.refusal(version) == "") is known


# -- turned on by itself -----------------------------------------------------------------------------------------------

ORDERS = {
    "torch, then triton": "import torch, triton",
    "triton, then torch": "import triton, torch",
    "looked for first, and through a broken finder": """
        import importlib.util, sys
        class Old:  # a finder of the kind that Python 3.12 no longer asks
            def find_module(self, *_): return None
        sys.meta_path.insert(0, Old())
        assert importlib.util.find_spec("triton") and importlib.util.find_spec("torch")
        import torch.nn, triton.language
    """,
    "reloaded": """
        import triton, torch, importlib
        importlib.reload(triton)
    """,
}


@pytest.mark.parametrize("order", ORDERS)
def test_after_lab_everything_is_on_in_any_order(order):
    code = f"""
    from course_lib import lab
    import sys
    assert not {{"torch", "triton", "numpy"}} & set(sys.modules)
    {textwrap.indent(textwrap.dedent(ORDERS[order]), "    ").strip()}
    from course_lib import interpreter
    import torch
    print(interpreter.enabled(), *(x.isnan().all().item() for x in (torch.empty(2), torch.ones(1).new_empty(3))))
    """
    assert python(["-c", textwrap.dedent(code)], ROOT, environment(**NO_GPU)).split() == ["True"] * 3


def test_triton_and_torch_may_come_before_lab():
    code = """
    import triton, torch
    from course_lib import interpreter, lab
    print(interpreter.enabled(), torch.empty(2).isnan().all())
    """
    assert python(["-c", textwrap.dedent(code)], ROOT, environment(TRITON_INTERPRET="1")).split() == ["True", "tensor(True)"]


def test_without_triton_torch_works_and_nothing_is_on():
    code = """
    from course_lib import lab
    import sys
    class NoTriton:
        def find_spec(self, name, path=None, target=None):
            if name == "triton": raise ModuleNotFoundError("No module named 'triton'", name="triton")
    sys.meta_path.insert(0, NoTriton())
    import torch
    print(torch.empty(3).sum() * 0 == 1, "course_lib.interpreter.switch" in sys.modules)
    """
    assert python(["-c", textwrap.dedent(code)], ROOT, environment()).split() == ["tensor(False)", "False"]


@pytest.fixture
def awaited(tmp_path, monkeypatch):
    """A finder that awaits the modules `first_one` and `second_one` -> (folder for them, list of what has been executed)."""
    calls = []
    for name in ("first_one", "second_one", "bystander"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    finder = after_import._AfterImport(
        {"first_one", "second_one"}, lambda: calls.append(sorted({"first_one", "second_one"} - finder.names))
    )
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path, calls
    for name in ("first_one", "second_one", "bystander"):
        sys.modules.pop(name, None)


def test_a_module_is_followed_once_when_it_has_been_executed_and_not_when_it_is_looked_for(awaited):
    folder, calls = awaited
    (folder / "first_one.py").write_text("value = 1\n")
    (folder / "bystander.py").write_text("")
    importlib.invalidate_caches()
    assert importlib.util.find_spec("first_one").origin == str(folder / "first_one.py")
    importlib.import_module("bystander")
    assert calls == []
    module = importlib.import_module("first_one")
    assert (module.value, calls) == (1, [["first_one"]])
    importlib.reload(module)
    assert calls == [["first_one"]]
    assert "exec_module" not in vars(module.__loader__)


def test_a_module_that_fails_and_is_imported_again_is_followed_then(awaited):
    folder, calls = awaited
    (folder / "first_one.py").write_text("raise RuntimeError('not yet')\n")
    importlib.invalidate_caches()
    with pytest.raises(RuntimeError):
        importlib.import_module("first_one")
    assert calls == []
    (folder / "first_one.py").write_text("value = 22222\n")
    importlib.invalidate_caches()
    assert importlib.import_module("first_one").value == 22222
    assert calls == [["first_one"]]


def test_modules_of_one_zip_file_share_a_loader_and_are_followed_one_by_one(awaited, monkeypatch):
    folder, calls = awaited
    with zipfile.ZipFile(folder / "package.zip", "w") as archive:
        archive.writestr("first_one.py", "import bystander\n")
        archive.writestr("second_one.py", "")
        archive.writestr("bystander.py", "")
    monkeypatch.setattr(sys, "path", [str(folder / "package.zip"), *sys.path])
    importlib.import_module("second_one")
    assert calls == [["second_one"]]
    importlib.import_module("first_one")
    assert calls == [["second_one"], ["first_one", "second_one"]]


def test_a_module_that_is_not_there_is_not_found_and_stays_awaited(awaited):
    folder, calls = awaited
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("first_one")
    (folder / "first_one.py").write_text("")
    importlib.invalidate_caches()
    importlib.import_module("first_one")
    assert calls == [["first_one"]]


def test_arming_twice_is_arming_once(monkeypatch):
    calls = []
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, after_import._AfterImport)])
    for _ in range(2):
        after_import.arm(lambda: calls.append(1))
    assert calls == [1]
    assert sum(isinstance(finder, after_import._AfterImport) for finder in sys.meta_path) == 1


# -- threads, nesting, errors ------------------------------------------------------------------------------------------


def test_threads_take_turns():
    with checks_on():
        wrong, barrier = [], threading.Barrier(4)

        def work(start):
            barrier.wait()
            for _ in range(10):
                if copied(start) != [start + i for i in range(4)] or doubled(start) != 2 * start:
                    wrong.append(start)

        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_a_block_that_ends_before_one_opened_later_takes_its_own_book_with_it():
    """As blocks of two threads may."""
    before = snapshot()
    first, second = interpreter.ledger(), interpreter.ledger(checks=interpreter.Checks(races=False))
    one, two = first.__enter__(), second.__enter__()
    copied()
    first.__exit__(None, None, None)
    assert settings.now().checks == interpreter.Checks(races=False)
    copied()
    second.__exit__(None, None, None)
    assert (len(one.launches), len(two.launches)) == (1, 2)
    assert changed(before) == set()


@triton.jit
def launching_kernel(out_ptr):
    doubling_kernel[(1,)](out_ptr, out_ptr)


def test_a_launch_inside_a_launch_is_refused_and_the_next_one_works():
    with checks_on():
        with pytest.raises(
            KernelMistake, match=r"launching_kernel launches doubling_kernel.*without a grid: doubling_kernel\("
        ) as told:
            launching_kernel[(1,)](torch.zeros(1))
        assert told.value.kind == "refused"
        assert told.value.place.text == "doubling_kernel[(1,)](out_ptr, out_ptr)"
        run_well()


def test_a_hook_may_launch_before_the_kernel_runs():
    out = torch.zeros(1)
    hooked = triton.jit(doubling_kernel.fn)
    hooked.add_pre_run_hook(lambda *_: doubling_kernel[(1,)](torch.tensor([5.0]), out))
    with checks_on():
        hooked[(1,)](torch.tensor([1.0]), torch.zeros(1))
    assert out.item() == 10


def test_mistakes_can_be_pickled_and_are_interpreter_errors():
    from triton.runtime.errors import InterpreterError

    with checks_on(), pytest.raises(InterpreterError) as found:
        copied(6)
    again = pickle.loads(pickle.dumps(found.value))
    assert (type(again), str(again), again.place, again.kind) == (
        KernelMistake,
        str(found.value),
        found.value.place,
        "out of bounds",
    )


def test_an_argument_that_a_kernel_does_not_have_is_an_error_and_options_of_a_launch_are_not():
    out = torch.zeros(4)
    with checks_on():
        bounds.load_kernel[(1,)](torch.ones(4), out, 0, BLOCK=4, num_warps=2, num_stages=3, maxnreg=64, waves_per_eu=2)
        assert out.tolist() == [1, 1, 1, 1]
        with pytest.raises(TypeError, match=r"load_kernel has no argument BLOK: its arguments are x_ptr, out_ptr, start, BLOCK;"):
            bounds.load_kernel[(1,)](torch.ones(4), out, 0, BLOCK=4, BLOK=8)


# -- where kernels come from -------------------------------------------------------------------------------------------

KERNEL = '''"""A module with a kernel."""
import torch, triton
import triton.language as tl

SCALE = tl.constexpr({scale})

@triton.jit
def helper(x):
    """def nothing(): return x"""
    return x * SCALE

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, helper(tl.load(x_ptr + lanes{mask})){mask})

def run(size=4):
    out = torch.zeros(4)
    kernel[(1,)](torch.ones(size), out, size, BLOCK=4)
    return out.tolist()
'''


@pytest.fixture
def shell():
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    yield shell
    InteractiveShell.clear_instance()


def cell(shell, source):
    """Run it as a notebook does -> the value of its last line, or what it raised."""
    result = shell.run_cell(textwrap.dedent(source), store_history=True, silent=False)
    return result.result if result.success else result.error_in_exec or result.error_before_exec


def test_a_kernel_redefined_in_a_cell_is_the_one_that_runs(shell, capsys):
    with checks_on():
        assert cell(shell, KERNEL.format(scale=2, mask="") + "\nrun()") == [2.0] * 4
        definition = """
        @triton.jit
        def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
            # another text, other lines
            lanes = tl.arange(0, BLOCK)
            tl.store(out_ptr + lanes, helper(tl.load(x_ptr + lanes)) + 1)
        """
        cell(shell, definition)
        assert cell(shell, "run()") == [3.0] * 4
        cell(shell, "@triton.jit\ndef helper(x):\n    return x * 10\n")
        assert cell(shell, "run()") == [11.0] * 4
        told = cell(shell, "run(2)")
        assert isinstance(told, KernelMistake)
        assert (told.place.line, told.place.text) == (5, "tl.store(out_ptr + lanes, helper(tl.load(x_ptr + lanes)) + 1)")
        cell(shell, definition.replace("# another text, other lines\n", "\n\n\n"))
        assert cell(shell, "run(2)").place.line == 7
        cell(shell, "@triton.jit\ndef helper(x):\n\n    return x * tl.load(x)\n")
        told = cell(shell, "run()")
        assert (told.kind, told.place.line) == ("error", 4), told
    capsys.readouterr()


@pytest.fixture
def module_at(tmp_path, monkeypatch):
    """Write a module and import it; `name` is its own for each test."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = []

    def write(source, name="lifecycle_kernels"):
        (tmp_path / f"{name}.py").write_text(source)
        importlib.invalidate_caches()
        made.append(name)
        return importlib.import_module(name) if name not in sys.modules else importlib.reload(sys.modules[name])

    yield write
    for name in made:
        sys.modules.pop(name, None)


def test_a_file_that_was_edited_and_reloaded_runs_its_new_source(module_at):
    with checks_on():
        module = module_at(KERNEL.format(scale=2, mask=""))
        assert module.run() == [2.0] * 4
        module = module_at("# one line more\n" + KERNEL.format(scale=33, mask=""))
        assert module.run() == [33.0] * 4
        with pytest.raises(KernelMistake) as told:
            module.run(2)
        assert told.value.place.line == 16
        assert told.value.place.text.startswith("tl.store(out_ptr + lanes, helper(")


def test_a_kernel_adds_no_name_to_its_module(module_at):
    module = module_at(KERNEL.format(scale=2, mask=""))
    before = dict(vars(module))
    with checks_on():
        module.run()
        with pytest.raises(KernelMistake):
            module.run(2)
    assert vars(module) == before


def test_a_kernel_in_a_zipped_package_has_its_lines(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("zipped_kernels/__init__.py", "")
        archive.writestr("zipped_kernels/one.py", KERNEL.format(scale=5, mask=""))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "zipped.zip"), *sys.path])
    with checks_on():
        module = importlib.import_module("zipped_kernels.one")
        assert module.run() == [5.0] * 4
        with pytest.raises(KernelMistake) as told:
            module.run(2)
        assert (told.value.place.line, told.value.place.text[:9]) == (15, "tl.store(")
    for name in ("zipped_kernels", "zipped_kernels.one"):
        sys.modules.pop(name)


DECORATED = '''
import torch, triton
import triton.language as tl

@triton.autotune(
    configs=[triton.Config({"BLOCK": block}, num_warps=4) for block in (8, 16)],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    """A kernel whose text has
def kernel(:
at the start of a line, and "def " in it.
    """
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        x = tl.load(x_ptr + lanes)
    else:
        x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + lanes, x + 1, mask=lanes < n)

def made(amount):
    scale = tl.constexpr(amount)
    @triton.jit
    def inner_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        tl.store(out_ptr + lanes, tl.load(x_ptr + lanes) * scale)
    return inner_kernel

def unreadable():
    @triton.jit
    def outdented_kernel(x_ptr):
        """Its text
starts further left than its code."""
        tl.store(x_ptr, 1.0)
    return outdented_kernel

class Holder:
    @staticmethod
    @triton.jit
    def held_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
        lanes = tl.arange(0, BLOCK)
        tl.store(out_ptr + lanes, tl.load(x_ptr + lanes) - 1)

async def launched(kernel, *args, **kwargs):
    kernel[(1,)](*args, **kwargs)
'''


def test_decorated_nested_and_held_kernels_run_with_their_own_lines(module_at):
    import asyncio

    module = module_at(DECORATED, "lifecycle_decorated")
    x = torch.arange(16.0)

    def on(kernel, n=16, **constants):
        out = torch.zeros(16)
        asyncio.run(module.launched(kernel, x[:n].clone(), out, *((n,) if "n" in kernel.arg_names else ()), **constants))
        return out

    with checks_on():
        out = torch.zeros(16)
        for n in (16, 13):
            module.tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)  # noqa: B023 - called at once
            assert torch.equal(out[:n], x[:n] + 1)
        double, triple = module.made(2), module.made(3)
        assert torch.equal(on(double, BLOCK=16), 2 * x)
        assert torch.equal(on(triple, BLOCK=16), 3 * x)
        assert torch.equal(on(double, BLOCK=16), 2 * x)
        assert torch.equal(on(module.Holder.held_kernel, BLOCK=16), x - 1)
        lines = DECORATED.splitlines()
        for kernel, n in ((double, 15), (module.Holder.held_kernel, 15)):
            with pytest.raises(KernelMistake) as told:
                on(kernel, n, BLOCK=16)
            assert lines[told.value.place.line - 1].strip() == told.value.place.text
            assert told.value.place.text.startswith("tl.store(")
        with pytest.raises(KernelMistake) as told:
            module.tuned_kernel[(3,)](x, out, 24)
        assert (told.value.place.kernel, told.value.place.program) == ("tuned_kernel", (2, 0, 0))
        assert lines[told.value.place.line - 1].strip() == "x = tl.load(x_ptr + lanes)"


def test_a_nested_kernel_whose_text_is_not_indented_is_refused_as_the_compiler_refuses_it(module_at):
    module = module_at(DECORATED, "lifecycle_outdented")
    with (
        checks_on(),
        pytest.raises(KernelMistake, match=r"outdented_kernel.*starts further left than its def.*indent it") as told,
    ):
        module.unreadable()[(1,)](torch.zeros(1))
    assert told.value.kind == "refused"


@pytest.mark.filterwarnings("ignore")  # of Python: a fork of a process with threads
def test_a_fork_in_the_middle_of_another_threads_launch_leaves_a_child_that_launches():
    ends = []
    with checks_on(), launch._turn:  # as while a launch runs
        forker = threading.Thread(target=lambda: ends.append(_end_of_a_child_that_launches()))
        forker.start()
        forker.join()
    assert ends == [0]


def _end_of_a_child_that_launches() -> int:
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    signal.alarm(20)  # ends it where it waits for ever
    try:
        run_well()
    except BaseException:
        os._exit(1)
    os._exit(0)
