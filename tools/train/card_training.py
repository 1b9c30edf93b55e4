"""The card's part about training: how long on what, how the learning rates were chosen, the calls, and the loss."""

from typing import Any

from .data import VALIDATION_WINDOWS
from .dry_run import RATES
from .markdown import paragraph, points, table

SHARES = (0.03, *(number / 12 for number in range(1, 13)))  # of a run, for the loss
SWEEP_STEPS = 800  # of each pair of rates, before the runs of the shipped weights


def training(runs: list[dict[str, Any]]) -> str:
    head = ["model", "tokens seen", "epochs", "steps", "minutes", "device", "date", "seed"]
    rows = [
        [run["model"], f"{run['tokens_seen'] / 1e6:,.0f} M", run["epochs"], f"{run['steps']:,}", run["minutes"], run["device"],
         run["date"], run["seed"]]
        for run in runs
    ]  # fmt: skip
    notes: dict[str, list[str]] = {}  # what was done -> the models it was done with
    for run in runs:
        settings = run["settings"]
        how = f"{settings['batch']} windows of {settings['length']} tokens a step"
        rates = f"Muon {settings['muon_rate']} for the layers' matrices, AdamW {settings['adam_rate']} for the rest"
        phases = f"{settings['warmup_steps']} steps of warm-up, decay over the last {settings['decay_share']:.0%}"
        notes.setdefault(f"{how}; {rates}; {phases}. PyTorch {run['versions']['torch']}.", []).append(run["model"])
        if settings["teacher"]:
            taught = f"{settings['distil_share']:.0%} of its loss from the distribution of {_stem(settings['teacher'])}."
            notes[taught] = [run["model"]]
    calls = "```\n" + "\n".join(_call(run) for run in runs) + "\n```\n"
    why = paragraph(
        "Products in bf16; steps are taken on float32 weights, whose bf16 copy is shipped. Calls that train the models again (a",
        "GPU does not always add in one order, so the same call need not give the same bits):",
    )
    said = points([f"{', '.join(names)}: {what}" for what, names in notes.items()])
    return "\n".join(["## Training\n", table(head, rows), said, _rates(), why, calls, _curves(runs)])


def _rates() -> str:
    tried = ", ".join(f"({muon}, {adam})" for muon, adam in RATES)
    return paragraph(
        f"Learning rates: before the runs, short ones of {SWEEP_STEPS} steps (`--sweep {SWEEP_STEPS}`) tried the pairs (Muon,",
        f"AdamW) {tried}; the pair with the lowest loss on held windows was taken (these losses were printed and not kept).",
        f"Held windows are the last {VALIDATION_WINDOWS} of the training text, which no step sees. The held-out modules chose",
        "nothing: each model was trained once, and nothing was chosen afterwards.",
    )


def _call(run: dict[str, Any]) -> str:
    settings = run["settings"]
    lines = [f"python -m tools.train {run['model']} --shards DIR --out DIR --tokens {run['tokens_seen']}"]
    lines.append(f"--muon-rate {settings['muon_rate']} --adam-rate {settings['adam_rate']} --seed {run['seed']}")
    if settings["teacher"]:
        lines.append(f"--teacher DIR/{settings['teacher']} --distil {settings['distil_share']}")
    return " \\\n    ".join(lines)


def _curves(runs: list[dict[str, Any]]) -> str:
    """Loss in nats a token at evenly spaced shares of each run: of training steps, and on held windows."""
    rows = []
    for share in SHARES:
        row: list[Any] = [f"{share:.0%}"]
        for run in runs:
            step = share * run["steps"]
            row += [_at(run["loss_curve"], step), _at(run["validation"], step)]
        rows.append(row)
    head = ["share of the run", *(f"{run['model'].removeprefix('course-')}, {of}" for run in runs for of in ("steps", "held"))]
    taught = [run["model"] for run in runs if run["settings"]["teacher"]]
    said = ["Loss in nats a token. Steps: mean over the training steps just before; held: held windows, which are few and harder"]
    said += ["than the average text, so that the two differ from the first epoch on."]
    said += [f"The steps of {', '.join(taught)} contain their teacher's part and compare with no other column."] if taught else []
    return paragraph(*said) + "\n" + table(head, rows)


def _stem(weights: str) -> str:
    return weights.removesuffix(".safetensors")


def _at(curve: list[list[float]], step: float) -> str:
    """The value at the point nearest to a step."""
    return f"{min(curve, key=lambda point: abs(point[0] - step))[1]:.3f}" if curve else ""
