"""The process that compiles. It is given a folder, imports nothing of ours, and leaves a JSON file for each job, as it finishes.

request.json  {"kernels": [{"file", "name"}], "jobs": [{"id", "kernel", "backend", "arch", "warp_size", "arguments",
                        "options", "disassemble"}]}
<id>.json     {"compiles": true, "shared_bytes", "num_warps", "tensor_memory", "dots", "log"} and <id>.ptx, .sass or .amdgcn
              beside it, or {"compiles": false, "line": line of the kernel's file or null, "message"}
started       the id of the job that is being compiled: when this process dies, that job is the one to blame

Triton prints on both standard streams, from C++ too, so each job has a log file in their place.
"""

import contextlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

_DIAGNOSTIC = re.compile(r'(?:loc\()?"?([^"\s:]+\.py)"?:(\d+):\d+\)?: error: (.+)')


class StandInDtype:
    """Reads as a torch dtype where Triton looks: by its name, its size, and whether it is a float.

    One object for each name, kept for good, as torch has it: Triton remembers dtypes by their address.
    """

    _known: ClassVar[dict] = {}

    def __new__(cls, name, itemsize):
        return cls._known.setdefault(name, super().__new__(cls))

    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize
        self.is_floating_point = "float" in name

    def __repr__(self):
        return f"torch.{self.name}"


class StandInTensor:
    """Reads as a tensor where Triton looks: its dtype, whether its address is a multiple of 16, and its storage's size."""

    def __init__(self, dtype, itemsize, aligned, small):
        self.dtype = StandInDtype(dtype, itemsize)
        self._address = 4096 if aligned else 4096 + itemsize
        self._bytes = 4096 if small else 2**33
        self.shape = (1,)

    def data_ptr(self):
        return self._address

    def ptr_range(self):
        return self._bytes

    def untyped_storage(self):
        return SimpleNamespace(size=lambda: self._bytes, nbytes=lambda: self._bytes)

    def stride(self):
        return (1,)


def argument(data, module):
    """A launch argument from its description (compiled/arguments.py writes it)."""
    import triton.language

    kind = data["kind"]
    if kind == "tensor":
        return StandInTensor(data["dtype"], data["itemsize"], data["aligned"], data["small"])
    if kind == "descriptor":
        fields = {name: argument(value, module) for name, value in data["fields"].items()}
        home = importlib.import_module(data["module"])
        return home.TensorDescriptor(**fields)
    if kind == "tuple":
        return tuple(argument(item, module) for item in data["items"])
    if kind == "function":
        return getattr(module, data["name"])
    return eval(data["expression"], {"_language": triton.language})


def compiled(job, module, function):
    """Compile as a launch would: Triton's own binder turns arguments into a signature, constants and alignments."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile, make_backend
    from triton.runtime.jit import create_function_from_signature

    target = GPUTarget(job["backend"], job["arch"], job["warp_size"])
    backend = make_backend(target)
    binder = create_function_from_signature(function.signature, function.params, backend)
    arguments = {name: argument(data, module) for name, data in job["arguments"].items()}
    options = job["options"]
    bound, specialization, _ = binder(**arguments, **{name: options[name] for name in options.keys() - arguments.keys()})
    options = {"debug": function.debug or False} | options
    parsed, signature, constants, attributes = function._pack_args(backend, options, bound, specialization, options)
    source_class = ASTSource
    if function.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        source_class = GluonASTSource
    return compile(source_class(function, signature, constants, attributes), target=target, options=parsed.__dict__)


def facts(kernel, folder, job):
    """What the parent cannot read from the assembly, which is written beside it."""
    job_id = job["id"]
    for name in ("ptx", "amdgcn"):
        if name in kernel.asm:
            (folder / f"{job_id}.{name}").write_text(kernel.asm[name])
    found = {"compiles": True, "shared_bytes": kernel.metadata.shared, "num_warps": kernel.metadata.num_warps}
    found["tensor_memory"] = getattr(kernel.metadata, "tmem_size", None) or 0
    found["dots"] = any(" tt.dot " in kernel.asm.get(stage, "") for stage in ("ttir", "ttgir"))
    if "cubin" in kernel.asm and job["disassemble"]:
        from triton import knobs

        cubin = folder / f"{job_id}.cubin"
        cubin.write_bytes(kernel.asm["cubin"])
        with contextlib.suppress(OSError, RuntimeError, subprocess.SubprocessError):  # no disassembler: the parent reads the PTX
            command = [knobs.nvidia.cuobjdump.path, "-sass", str(cubin)]
            sass = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, timeout=60).stdout
            (folder / f"{job_id}.sass").write_bytes(sass)
    return found


def failure(error, module, log):
    """-> {"line", "message"}: the innermost sentence, at the innermost line that stands in the kernel's own text."""
    from triton.compiler.errors import CompilationError

    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    inner, line = chain[-1], None
    starts = {}
    for thing in vars(module).values():
        if hasattr(thing, "raw_src") and hasattr(thing, "src"):
            above = next(i for i, text in enumerate(thing.raw_src) if text.strip().startswith("def "))
            starts[thing.src] = thing.starting_line_number + above
    for link in chain:
        if isinstance(link, CompilationError) and link.src in starts and hasattr(link.node, "lineno"):
            line = starts[link.src] + link.node.lineno - 1
    message = inner.error_message if isinstance(inner, CompilationError) else str(inner)
    if not isinstance(error, CompilationError):
        said = [(path, int(number), text) for path, number, text in _DIAGNOSTIC.findall(log)]
        said = [one for one in said if "Failures have been detected" not in one[2]] or said
        if said:
            path, number, message = said[0]
            line = number if path == module.__file__ else None
        elif type(error).__name__ == "PTXASError":
            lines = [text for text in str(error).splitlines() if re.search(r"\b(error|fatal)\b\s*:", text)]
            message = "; ".join(lines[:3]) or message
    return {"compiles": False, "line": line, "message": message or type(inner).__name__}


def load(folder, file):
    """Import a kernel's module from its file, once; Triton reads the source from there."""
    if Path(file).stem in sys.modules:
        return sys.modules[Path(file).stem]
    spec = importlib.util.spec_from_file_location(Path(file).stem, folder / file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[spec.name] = module
    return module


def run(folder, request, job):
    log = folder / f"{job['id']}.log"
    handle = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    kernel, module = request["kernels"][job["kernel"]], None
    try:
        module = load(folder, kernel["file"])
        result = facts(compiled(job, module, getattr(module, kernel["name"])), folder, job)
    except Exception as error:  # whatever a compiler raises is the answer for this target, and the next one goes on
        sys.stdout.flush()
        said = log.read_text(errors="replace")
        if module is None:
            result = {"compiles": False, "line": None, "message": f"{type(error).__name__}: {error}"}
        else:
            result = failure(error, module, said)
    sys.stdout.flush()
    result["log"] = log.read_text(errors="replace")[:20_000]
    part = folder / f"{job['id']}.part"
    part.write_text(json.dumps(result))
    part.rename(folder / f"{job['id']}.json")


def main(folder):
    folder = Path(folder)
    request = json.loads((folder / "request.json").read_text())
    for job in request["jobs"]:
        if not (folder / f"{job['id']}.json").exists():
            (folder / "started").write_text(job["id"])
            run(folder, request, job)


if __name__ == "__main__":
    main(sys.argv[1])
