"""The card's part about two models beside each other: what latent attention costs, and what a draft does for its target."""

from typing import Any

from course_lib.model.config import ModelConfig
from course_lib.model.interval import ratio_interval

from .markdown import paragraph, table

GREEDY = "Greedy text of small models goes round in circles, which makes agreement on it higher: both are given.\n"


def score_on(run: dict[str, Any], sha: str) -> dict[str, Any] | None:
    """What a run's model scored on one text; None where it was not scored."""
    return next((score for score in run.get("held_out", []) if score["text_sha256"] == sha), None)


def difference(run: dict[str, Any], other: dict[str, Any], text_sha256: str) -> tuple[float, float, float] | None:
    """(value, low, high) of run's bits per byte less other's on one text; None where a model has no bits of single modules.

    Paired: both models have the same modules in each resample, so what makes a module hard for both cancels.
    """
    ours, theirs = score_on(run, text_sha256), score_on(other, text_sha256)
    if not ours or not theirs or "module_bits" not in ours or "module_bits" not in theirs:
        return None
    more = [ours["module_bits"][module] - theirs["module_bits"][module] for module in ours["module_bits"]]
    sizes = [ours["module_bytes"][module] for module in ours["module_bits"]]
    return (sum(more) / sum(sizes), *ratio_interval(more, sizes))


def _difference_rows(run: dict[str, Any], other: dict[str, Any]) -> list[list[str]]:
    found = [(score["python"], difference(run, other, score["text_sha256"])) for score in run.get("held_out", [])]
    return [[python, f"{one[0]:+.4f} [{one[1]:+.4f}, {one[2]:+.4f}]"] for python, one in found if one]


def latent(target: dict[str, Any] | None, sibling: dict[str, Any] | None) -> str:
    """MLA against GQA: what the smaller cache costs."""
    if not target or not sibling:
        return ""
    kept, all_of_it = (ModelConfig.from_dict(run["config"]).kv_bytes_per_token(2) for run in (sibling, target))
    same = "the same tokens in the same order" if sibling["steps"] == target["steps"] else "tokens of the same text"
    said = paragraph(
        f"Equal but for the attention, and for an MLP that spends the parameters saved ({sibling['parameters']:,} against",
        f"{target['parameters']:,}); trained on {same}. {sibling['model']} keeps {kept:,.0f} bytes a token in its cache,",
        f"{kept / all_of_it:.1%} of {target['model']}'s {all_of_it:,.0f}.",
    )
    head = ["Python", f"bits per byte, {sibling['model']} less {target['model']}"]
    rows = _difference_rows(sibling, target)
    note = paragraph(
        "In brackets: 95% interval, bootstrap over modules, both models on the same ones. It does not contain what another",
        "seed would change: each model was trained once.",
    )
    return "## MLA against GQA\n\n" + said + ("\n" + table(head, rows) + "\n" + note if rows else "")


def pairs(runs: list[dict[str, Any]]) -> str:
    """What the draft does for its target, by agreement.py; nothing where no pair was scored."""
    names = {
        "top1_teacher_forced": "same most likely token, on held-out text (teacher-forced)",
        "top1_own_text": "the same, on the target's own greedy text",
        "acceptance": "acceptance at temperature 1, sum of min(p, q), on held-out text",
        "kl_nats": "KL of target to draft, nats a token, on held-out text",
    }  # fmt: skip
    said, named = "", {run["model"]: run for run in runs}
    for run in runs:
        if "pair" not in run:
            continue
        of = run["pair"]["target"].removesuffix(".safetensors")
        target = named.get(of)
        score = score_on(run, run["pair"]["text_sha256"])
        where = f"Python {score['python']}'s held-out text" if score and score["python"] else "held-out text"
        said += f"{run['model']} for {of}, on {where}:\n\n"
        rows = []
        for key, words in names.items():
            one = run["pair"][key]
            rows.append([words, f"{one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}]", f"{one['count']:,}"])
        said += table(["measure", "value", "tokens"], rows) + "\n" + GREEDY + "\n"
        if target and (more := _difference_rows(run, target)):
            said += table(["Python", f"bits per byte, {run['model']} less {of}"], more) + "\n"
    return "## Draft and target\n\n" + said.rstrip() + "\n" if said else ""
