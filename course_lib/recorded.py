"""Results that were measured on a GPU and are kept with the course, for figures and texts on machines without one.

They lie in benchmarks/results of the repository; an installed wheel carries a copy.
"""

import json
import re
from pathlib import Path
from typing import Any

_PLACES = (Path(__file__).parents[1] / "benchmarks" / "results", Path(__file__).parent / "_results")


def recorded(name: str, device: str = "nvidia-h200") -> dict[str, Any]:
    """The result file `device/name.json`: name, device, driver, clocks, torch, triton, date, commit, rows, ...

    Raises FileNotFoundError, naming what is there, for a result that was never recorded.
    """
    for word in (name, device):
        if not isinstance(word, str) or not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,99}", word):
            raise ValueError(f"{word!r} names no result and no device; names are in small letters, digits, _ and -")
    for place in _PLACES:
        path = place / device / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
    there = sorted(f"{p.parent.name}/{p.stem}" for place in _PLACES for p in place.glob("*/*.json"))
    raise FileNotFoundError(f"no result {device}/{name} is kept with the course; there are {', '.join(there) or 'none'}")
