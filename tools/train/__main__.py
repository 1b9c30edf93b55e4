"""The command line; see the package's docstring."""

import argparse
import time
from pathlib import Path

BEGAN = time.monotonic()  # before torch is imported: --seconds counts from here


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.train", description="Train a model; call again to resume.")
    parser.add_argument("model", help="course-target, course-draft or course-mla")
    parser.add_argument("--shards", type=Path, required=True, help="the folder that tools/corpus wrote")
    parser.add_argument("--out", type=Path, required=True, help="checkpoints, logs and finished weights")
    parser.add_argument("--seconds", type=float, default=300.0, help="this call ends by itself within so many seconds")
    parser.add_argument("--tokens", type=float, help="tokens to see in all; left out: as many as fit in the first call")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--muon-rate", type=float, default=0.02)
    parser.add_argument("--adam-rate", type=float, default=0.004)
    parser.add_argument("--teacher", type=Path, help="finished weights to learn from as well")
    parser.add_argument("--distil", type=float, default=0.5, help="the teacher's share of the loss")
    parser.add_argument("--eager", action="store_true", help="do not compile (the default on a CPU)")
    parser.add_argument("--dry-run", type=int, nargs="+", metavar="BATCH", help="tokens/s of batch sizes; nothing is kept")
    parser.add_argument("--sweep", type=int, metavar="STEPS", help="short runs at several learning rates; nothing is kept")
    return parser.parse_args()


def main(args: argparse.Namespace, began: float) -> None:
    import torch

    from course_lib.model import preset

    from . import dry_run
    from .build import build, peak_flops
    from .data import read_tokens
    from .finish import finish
    from .loop import Progress, Settings, train
    from .objective import flops_per_token

    if args.teacher and not args.teacher.is_file():
        raise SystemExit(f"no teacher at {args.teacher}; train it first, or leave --teacher out")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    compiled = device.type == "cuda" and not args.eager
    config = preset(args.model)
    tokens = read_tokens(args.shards).to(device)
    print(f"train: {len(tokens) / 1e6:.1f} M tokens on {device}, {time.monotonic() - began:.0f} s", flush=True)
    settings = Settings(
        batch=args.batch, length=args.length, seed=args.seed, muon_rate=args.muon_rate, adam_rate=args.adam_rate,
        teacher=args.teacher.name if args.teacher else "", distil_share=args.distil if args.teacher else 0.0,
    )  # fmt: skip
    if args.dry_run:
        return dry_run.speeds(config, settings, tokens, teacher=args.teacher, batches=args.dry_run, compiled=compiled)
    total = max(1, round(args.tokens / settings.tokens_per_step)) if args.tokens else None
    folder = args.out / "runs"
    path = folder / f"{config.name}.pt"
    run = build(config, settings, tokens, path, teacher=args.teacher, compiled=compiled, total_steps=total)
    if args.sweep:
        left = args.seconds - (time.monotonic() - began)
        return dry_run.sweep(run, steps=args.sweep, seconds=left)
    if run.step:
        print(f"train: {config.name} resumes at step {run.step}", flush=True)
    log = folder / f"{config.name}.jsonl"
    flops = flops_per_token(run.model, settings.length)
    progress = Progress(run, log, began=began, flops_per_token=flops, peak_flops=peak_flops(device))
    if not train(run, progress, seconds=args.seconds):
        print(f"train: stopped in time at step {run.step} of {run.total_steps}; call again to go on", flush=True)
        return None
    facts = finish(run, args.shards, args.out, args.teacher)
    for score in facts.get("held_out", []):
        said = f"held out (Python {score['python']}): {score['bits_per_byte']:.4f} bits per byte"
        print(f"train: {said} [{score['low']:.4f}, {score['high']:.4f}]", flush=True)
    for name in ("top1_teacher_forced", "top1_own_text", "acceptance", "kl_nats") if "pair" in facts else ():
        print(f"train: {name} {facts['pair'][name]['value']:.4f}", flush=True)
    seen = f"{facts['tokens_seen'] / 1e6:.0f} M tokens"
    print(f"train: {config.name} finished, {seen}, {time.monotonic() - began:.0f} s", flush=True)
    return None


if __name__ == "__main__":
    main(arguments(), BEGAN)
