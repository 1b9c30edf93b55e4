"""What a run needs to go on as if it had never stopped: one file, written beside the old one and renamed over it.

There is no generator's state in it: what a step sees follows from seed and step (data.py), and nothing else is drawn.
"""

from pathlib import Path
from typing import Any

import torch

FORMAT = 1


def save(path: Path, *, step: int, plan: dict[str, Any], optimiser: dict[str, Any], history: dict[str, Any]) -> None:
    """plan: the settings that a resumed run must share. history: what was measured so far, as plain data."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    torch.save({"format": FORMAT, "step": step, "plan": plan, "optimiser": optimiser, "history": history}, fresh)
    fresh.replace(path)


def load(path: Path, plan: dict[str, Any], device: torch.device) -> dict[str, Any] | None:
    """The checkpoint, or None where there is none. ValueError for one of another plan: resuming would mix two runs."""
    if not path.is_file():
        return None
    found = torch.load(path, map_location=device, weights_only=True)
    if found["format"] != FORMAT:
        raise ValueError(f"{path} has format {found['format']}, this version writes {FORMAT}; remove it and begin again")
    if changed := {key: (found["plan"].get(key), value) for key, value in plan.items() if found["plan"].get(key) != value}:
        said = ", ".join(f"{key} was {was!r} and is {now!r}" for key, (was, now) in changed.items())
        raise ValueError(f"{path} belongs to another run: {said}; use the old settings, or another --out folder")
    return found
