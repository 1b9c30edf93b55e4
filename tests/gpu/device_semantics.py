"""What compiled Triton really does with numbers, as a list of probes; recorded on a device, compared with the interpreter.

    python -m tests.gpu.device_semantics record FOLDER      on a GPU: every probe -> FOLDER/device_semantics.npz
    python -m tests.gpu.device_semantics interpret FILE     with TRITON_INTERPRET=1, on a CPU: outputs and errors -> FILE
    python -m tests.gpu.device_semantics compile            without a GPU: does every probe compile for sm_90?

The record (tests/interpreter/device_semantics.npz) holds outputs only, since inputs follow from seeds. An output that is compared
bit for bit and does not compress is kept as every n-th element and a hash of all; one compared within a bound, as every n-th.
"""

import hashlib
import json
import os
import sys
import traceback
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .semantics import arithmetic, atomics, blocks, casts, control, dots, integers, memory, mixed, reductions
from .semantics.bits import Bits
from .semantics.probe import Exact, Open, Probe, beside, difference, run

PROBES: list[Probe] = [
    probe
    for module in (casts, arithmetic, mixed, integers, reductions, atomics, dots, blocks, memory, control)
    for probe in module.probes()
]
BY_NAME = {probe.name: probe for probe in PROBES}
assert len(BY_NAME) == len(PROBES), "two probes of one name"
RECORD = Path(__file__).parents[1] / "interpreter" / "device_semantics.npz"
HOW = (
    "python -m tests.gpu.device_semantics record FOLDER (on a GPU of compute capability 9.0), then copy the npz of that name here"
)
_WHOLE_BYTES = 700  # an output that compresses to this is kept whole
_SAMPLES = {True: 64, False: 256}  # elements kept of others: few where a hash of all stands beside them


def packed(probe: Probe, outputs: Sequence[Bits]) -> dict[str, np.ndarray]:
    """Outputs -> what the record keeps: "NAME/i" whole, or "NAME/i/every n" and, for Exact, "NAME/i/sha256"."""
    kept = {}
    for i, bits in enumerate(outputs):
        flat = bits.canonical().ravel()
        samples = _SAMPLES[isinstance(probe.rule, Exact)]
        partly = isinstance(probe.rule, Exact) and probe.rule.where is not None  # a hash would hold what is not compared too
        if partly or flat.size <= samples or len(zlib.compress(flat.tobytes(), 9)) <= _WHOLE_BYTES:
            kept[f"{probe.name}/{i}"] = flat
            continue
        step = flat.size // samples | 1
        kept[f"{probe.name}/{i}/every {step}"] = flat[::step]
        if isinstance(probe.rule, Exact):
            kept[f"{probe.name}/{i}/sha256"] = np.frombuffer(hashlib.sha256(flat.tobytes()).digest(), np.uint8)
    return kept


def disagreement(probe: Probe, recorded: dict[str, np.ndarray], outputs: Sequence[Bits]) -> str:
    """ "" where these outputs agree with the recorded ones by the probe's rule, else a sentence."""
    along = beside(probe)
    for i, bits in enumerate(outputs):
        flat = Bits(bits.dtype, bits.canonical().ravel())
        mine = {
            key: value for key, value in recorded.items() if key == f"{probe.name}/{i}" or key.startswith(f"{probe.name}/{i}/")
        }
        if not mine:
            return f"output {i} is not in the record; {HOW}"
        for key, value in mine.items():
            if key.endswith("/sha256"):
                if hashlib.sha256(flat.data.tobytes()).digest() != value.tobytes():
                    return f"output {i}: the recorded sample agrees, elements between do not (SHA-256)"
                continue
            step = int(key.rsplit(" ", 1)[1]) if "/every " in key else 1
            part = None if along is None else along[::step]
            wrong = difference(probe.rule, Bits(bits.dtype, value), Bits(bits.dtype, flat.data[::step]), part)
            if wrong:
                return f"output {i}" + (f" (every {step}th element): " if step > 1 else ": ") + wrong
    return ""


def save_record(path: Path, kept: dict[str, np.ndarray], about: dict[str, str]) -> None:
    """One stretch of bytes and an index: a member for each array would cost more than most arrays hold."""
    index = {key: [value.dtype.str, list(value.shape)] for key, value in kept.items()}
    text = json.dumps({"about": about, "index": index}, separators=(",", ":")).encode()
    data = b"".join(value.tobytes() for value in kept.values())
    partial = path.with_name(path.name + ".part")
    with partial.open("wb") as file:
        np.savez_compressed(file, index=np.frombuffer(text, np.uint8), data=np.frombuffer(data, np.uint8))
    partial.replace(path)


def load_record(path: Path = RECORD) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """-> the arrays by key, and the device and versions that they come from."""
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; record it with: {HOW}")
    with np.load(path) as file:
        head, data = json.loads(file["index"].tobytes()), file["data"].tobytes()
    found, at = {}, 0
    for key, (dtype, shape) in head["index"].items():
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        found[key] = np.frombuffer(data[at : at + size], dtype).reshape(shape)
        at += size
    return found, head["about"]


def compared() -> list[Probe]:
    """The probes with a rule; the others are recorded for people."""
    return [probe for probe in PROBES if not isinstance(probe.rule, Open)]


def interpret(path: Path) -> int:
    """Run every compared probe in the course's interpreter -> npz of whole outputs; errors under "errors" as JSON."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        print("set TRITON_INTERPRET=1: Triton reads it when it is imported, which has happened by now", file=sys.stderr)
        return 2
    from course_lib import interpreter

    outputs, errors = {}, {}
    for probe in compared():
        try:
            with interpreter.ledger():
                for i, bits in enumerate(run(probe, "cpu")):
                    outputs[f"{probe.name}/{i}"] = bits.data
        except Exception as error:
            errors[probe.name] = (
                f"{type(error).__name__}: {str(error).strip()}" if "-v" not in sys.argv else traceback.format_exc()
            )
    np.savez(path, errors=np.array(json.dumps(errors)), **outputs)
    return 0


def main(arguments: Sequence[str]) -> int:
    what, *rest = arguments or ["help"]
    if what == "interpret" and rest:
        return interpret(Path(rest[0]))
    if what == "record" and rest:
        from .semantics.recorder import record

        return record(Path(rest[0]))
    if what == "compile":
        from .semantics.recorder import compile_all

        return compile_all()
    print(__doc__)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
