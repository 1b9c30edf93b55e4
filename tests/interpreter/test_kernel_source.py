"""A kernel's text stands alone: it defines the same program, wherever the kernel and its helpers came from."""

import importlib
import linecache
import subprocess
import sys
import zipfile

import pytest
import triton
import triton.language as tl

from course_lib.interpreter.text.kernel_source import SourceError, self_contained
from tests.interpreter.kernels.copy import copy_kernel
from tests.interpreter.kernels.flash import flash_kernel
from tests.interpreter.kernels.matmul import matmul_kernel


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Writes modules into a folder of sys.path and imports one: module("name", source)."""
    monkeypatch.syspath_prepend(tmp_path)
    made = []

    def write(name, source):
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        importlib.invalidate_caches()
        made.append(name)
        return importlib.import_module(name)

    yield write
    for name in made:
        sys.modules.pop(name, None)


def executed(source, folder):
    """The names of a text, run as a module of its own."""
    file = folder / f"text_{abs(hash(source.text))}.py"
    file.write_text(source.text, encoding="utf-8")
    scope = {"__name__": file.stem, "__file__": str(file)}
    exec(compile(source.text, str(file), "exec"), scope)
    return scope


HEAD = "import triton\nimport triton.language as tl\n"
SCALE = HEAD + "FACTOR = tl.constexpr(3)\n\n\n@triton.jit\ndef scale(x):\n    return x * FACTOR\n"
OTHER = HEAD + "FACTOR = tl.constexpr(5)\n\n\n@triton.jit\ndef scale(x):\n    return x + FACTOR\n"
USER = """import triton
import triton.language as T
from triton.language import cdiv
import one
from two import scale
TYPE = T.float16


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit(do_not_specialize=["n"])
def kernel(src, dst, n, BLOCK: T.constexpr, SIDE: "T.constexpr" = 2 * len("ab")):
    scale_2 = T.arange(0, BLOCK)  # a local that no helper may be called
    x = T.load(src + scale_2, mask=scale_2 < n, other=0.0)
    y = one.scale(x) + scale(x) + cdiv(n, SIDE)
    T.store(dst + scale_2, y.to(TYPE), mask=scale_2 < n)
"""


def test_two_helpers_of_one_name_both_arrive(module, tmp_path):
    module("one", SCALE)
    module("two", OTHER)
    source = self_contained(module("user", USER).kernel)
    scope = executed(source, tmp_path)
    text = source.text.splitlines()
    line = next(line for line in text if line.strip().startswith("y = "))
    first, second = line.split("=")[1].replace("(x)", "").split("+")[:2]
    assert scope[first.strip()] is not scope[second.strip()]
    body = "\n".join(text)
    assert scope["FACTOR"].value + scope["FACTOR_2"].value == 8
    assert "autotune" not in body
    assert "do_not_specialize=['n']" in body
    assert "= 4" in body  # the default's value, not its expression
    assert not [name for name in ("one", "two", "user") if f"import {name}" in body]


def test_a_text_line_leads_back_to_the_line_it_was_copied_from(module):
    module("one", SCALE)
    two, user = module("two", OTHER), module("user", USER)
    source = self_contained(user.kernel)
    found = {}
    for number, line in enumerate(source.text.splitlines(), 1):
        if where := source.where(number):
            found[line.strip()] = where
    assert found["y = " + next(k for k in found if k.startswith("y = "))[4:]] == (user.__file__, 14)
    assert found[next(k for k in found if "x + FACTOR" in k)] == (two.__file__, 8)
    assert source.where(1) is None
    assert source.where(10_000) is None
    assert (source.file, source.first_line) == (user.__file__, 11)


def test_a_helper_that_is_hidden_by_a_local_elsewhere_keeps_its_value(module, tmp_path):
    lines = "\n\n@triton.jit\ndef first(scale):\n    return scale\n\n\n"
    lines += "@triton.jit\ndef kernel(p):\n    tl.store(p, scale(first(2)))\n"
    source = self_contained(module("hidden", SCALE + lines).kernel)
    scope = executed(source, tmp_path)
    assert {"first", "scale", "kernel"} <= scope.keys()


@pytest.mark.parametrize("value", ["object()", "[object()]", "{1: 2}", "__import__('torch').float16", "triton.testing.Benchmark"])
def test_a_global_that_cannot_be_written_is_named_with_its_type_and_the_cure(module, value):
    source = HEAD + f"THING = {value}\n\n\n@triton.jit\ndef kernel(p):\n    tl.store(p, THING)\n"
    kernel = module("unwritable", source).kernel
    if value.startswith("triton."):  # Triton's own things are imported
        assert "import Benchmark as THING" in self_contained(kernel).text
        return
    with pytest.raises(SourceError, match=r"kernel uses THING, a \w+, .*tl\.constexpr"):
        self_contained(kernel)


def test_constants_of_every_kind_come_back_equal(module, tmp_path):
    values = ["1", "-2.5", "float('inf')", "'tf32'", "True", "None", "(1, (2.0, 'x'))", "tl.constexpr((4,))", "tl.bfloat16"]
    values += ["tl.pointer_type(tl.float32)", "__import__('numpy').float64(0.1)"]
    names = [f"C{i}" for i in range(len(values))]
    head = HEAD + "".join(f"{name} = {value}\n" for name, value in zip(names, values, strict=True))
    made = module("constants", head + f"\n\n@triton.jit\ndef kernel(p):\n    tl.store(p, ({', '.join(names)}))\n")
    scope = executed(self_contained(made.kernel), tmp_path)
    for name in names:
        mine, original = scope[name], getattr(made, name)
        if isinstance(original, tl.constexpr):
            mine, original = mine.value, original.value
        assert mine == original, name


@pytest.mark.parametrize("thing", [3, len, "copy_kernel", test_constants_of_every_kind_come_back_equal])
def test_what_is_no_kernel_is_refused(thing):
    with pytest.raises(TypeError, match=r"triton\.jit"):
        self_contained(thing)


def test_a_notebook_cell_that_is_run_again_brings_the_new_source():
    scope = {"triton": triton, "tl": tl}
    for number in (1, 2):
        cell = f"@triton.jit\ndef kernel(p):\n    tl.store(p, {number})\n"
        name = f"<ipython-input-{number}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(True), name)
        exec(compile(cell, name, "exec"), scope)
        source = self_contained(scope["kernel"])
        assert f"tl.store(p, {number})" in source.text
        assert source.where(source.text.splitlines().index(f"    tl.store(p, {number})") + 1) == (name, 3)


def test_a_helper_in_a_zipped_package_is_copied(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed/__init__.py", "")
        archive.writestr("packed/tools.py", SCALE)
        archive.writestr(
            "packed/kernels.py", HEAD + "from . import tools\n\n\n@triton.jit\ndef k(p):\n    tl.store(p, tools.scale(2))\n"
        )
    monkeypatch.syspath_prepend(tmp_path / "packed.zip")
    kernels = importlib.import_module("packed.kernels")
    text = self_contained(kernels.k).text
    assert "tl.store(p, tools_scale(2))" in text
    assert "def tools_scale(x):" in text
    for name in [name for name in sys.modules if name.startswith("packed")]:
        del sys.modules[name]


def test_a_closure_and_a_default_that_is_a_jit_function(module, tmp_path):
    source = SCALE + (
        "\n\ndef make(n):\n    @triton.jit\n    def kernel(p, f: tl.constexpr = scale):\n"
        '        """Größe: läuft."""\n        tl.store(p, f(n))\n    return kernel\n\n\nkernel = make(tl.constexpr(7))\n'
    )
    scope = executed(self_contained(module("closed", source).kernel), tmp_path)
    assert scope["n"].value == 7


@pytest.mark.compile
@pytest.mark.parametrize("target", ["cuda:80", "hip:gfx942"])
def test_the_text_compiles_to_the_same_assembly_as_the_kernel(module, tmp_path, target):
    """In a process of its own, because Triton is interpreted in this one."""
    module("one", SCALE)
    module("two", OTHER)
    user = module("user", USER)
    (tmp_path / "text.py").write_text(self_contained(user.kernel).text, encoding="utf-8")
    program = tmp_path / "both.py"
    program.write_text(BOTH.format(target=target), encoding="utf-8")
    env = {"PATH": "/usr/bin:/bin", "TRITON_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, program], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "equal\n"


BOTH = """
import re, text, user
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
kind, arch = "{target}".split(":")
target = GPUTarget("cuda", int(arch), 32) if kind == "cuda" else GPUTarget("hip", arch, 64)
def assembly(kernel):
    signature = dict(src="*fp16", dst="*fp16", n="i32", BLOCK="constexpr", SIDE="constexpr")
    made = compile(ASTSource(kernel, signature, dict(BLOCK=64, SIDE=4)), target=target)
    code = made.asm["ptx" if kind == "cuda" else "amdgcn"]
    code = code.split(".section")[0] if kind == "cuda" else code.split(".Lfunc_end0")[0]
    lines = [re.sub(r"//.*|;.*\\$", "", line) for line in code.splitlines() if ".loc" not in line and ".file" not in line]
    return [line.replace("$L__tmp", "").rstrip() for line in lines if "$L__tmp" not in line and ".Ltmp" not in line]
first, second = assembly(user.kernel.fn), assembly(text.kernel)
assert len(first) > 30
print("equal" if first == second else [pair for pair in zip(first, second) if pair[0] != pair[1]][:5])
"""


@pytest.mark.parametrize("kernel", [copy_kernel, matmul_kernel, flash_kernel], ids=lambda kernel: kernel.__name__)
def test_the_kernels_of_these_tests_stand_alone(kernel, tmp_path):
    assert executed(self_contained(kernel), tmp_path)[kernel.__name__].arg_names == kernel.arg_names


def test_a_gluon_kernel_says_that_it_is_one(module):
    source = (
        "from triton.experimental import gluon\nfrom triton.experimental.gluon import language as gl\n"
        "LAYOUT: gl.constexpr = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))\n\n\n"
        "@gluon.jit\ndef kernel(p):\n    gl.store(p + gl.arange(0, 128, LAYOUT), 1)\n"
    )
    made = self_contained(module("gluon_user", source).kernel)
    assert made.gluon
    assert "@_gluon.jit" in made.text
