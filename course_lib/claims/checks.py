"""Take a claim's `how_to_check` apart: several parts, joined by " ; ", each with a prefix that says where it can run.

    py: 1000/40 => 25 ; gpu(2): p99 ITL with a long-prompt burst

py        arithmetic with the number that it must give (evaluate.py)
cpu, gpu  something that runs; "gpu(2)" needs that many devices, "cpu/gpu" runs on either, "cpu+gpu" needs both
cli, src  a command or somebody's source to look at; course: a property that this course's own code must have
by hand   a part without a prefix: words for a reader
"""

import re
from dataclasses import dataclass
from functools import cache

SEPARATOR = " ; "
BY_HAND = "by hand"
_PREFIX = re.compile(r"(py|cpu|gpu|cpu/gpu|gpu/cpu|cpu\+gpu|cli|src|course)(?:\(([\d,-]+)\))?:\s+(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Check:
    """One part. `devices` is what stands in gpu(...): "2", "2,4", "2-8", or "". Of a py part, text is "expression => printed"."""

    kind: str
    text: str
    devices: str = ""

    @property
    def label(self) -> str:
        """The prefix as written: "gpu(2)"."""
        return f"{self.kind}({self.devices})" if self.devices else self.kind

    @property
    def expression(self) -> str:
        return self._sides[0]

    @property
    def printed(self) -> str:
        """The number that the expression must give, in the digits that were printed."""
        return self._sides[1]

    @property
    def _sides(self) -> tuple[str, str]:
        if self.kind != "py":
            raise ValueError(f"a part {self.label}: has no arithmetic; only py: parts have an expression and a number")
        expression, arrow, printed = self.text.partition("=>")
        if not arrow or "=>" in printed:
            raise ValueError(f"a py: part reads 'expression => number', got {self.text!r}")
        return expression.strip(), printed.strip()

    def __str__(self) -> str:
        return self.text if self.kind == BY_HAND else f"{self.label}: {self.text}"


@cache
def parse_checks(how_to_check: str) -> tuple[Check, ...]:
    """ "py: 8/4 => 2 ; gpu: time it" -> (Check("py", "8/4 => 2"), Check("gpu", "time it")).

    Raises ValueError for an empty part.
    """
    parts = [part.strip() for part in how_to_check.split(SEPARATOR)]
    if not all(parts):
        raise ValueError(f"a part of a check is empty in {how_to_check!r}")
    return tuple(map(_check, parts))


def _check(part: str) -> Check:
    match = _PREFIX.fullmatch(part)
    return Check(BY_HAND, part) if match is None else Check(match[1], match[3].strip(), match[2] or "")
