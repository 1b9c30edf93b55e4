"""Snapshots of the learner's copy in a git repository of its own: every earlier state can be had again.

Contract nothing here stops a command: where git is missing, busy or unwilling, the answer is a sentence that
         says so. Only `<work>/.git` is ever used, whatever the environment or an outer repository says.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .workspace_files import learner_files
from .workspace_report import size_text

LARGE_BYTES = 20 * 1024**2  # a larger file (weights, traces) would be stored again with each change
KEPT_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH")
KEPT_PREFIXES = ("GIT_AUTHOR_", "GIT_COMMITTER_")
UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
TIMEOUT_SECONDS = 120


class GitRefused(Exception):
    """git ran and failed, or could not run; the message is one line."""


def snapshot(work: Path, message: str) -> str | None:
    """Commits everything that changed in `work`, making the repository first if there is none.

    None when that worked or nothing had changed, else a sentence for the learner.
    """
    if not shutil.which("git"):
        return "git is not installed: no history of your work is kept; all else works"
    try:
        if not (work / ".git" / "HEAD").exists():
            _git(work, "init", "--quiet", "--template=", str(work), located=False)
            _git(work, "config", "core.autocrlf", "false")  # a snapshot holds the very bytes
        return _commit(work, message)
    except GitRefused as error:
        return f"no whole snapshot of your work in git this time ({error}); your files are untouched"


def _commit(work: Path, message: str) -> str | None:
    busy = [name for name in UNFINISHED if (work / ".git" / name).exists()]
    if busy:
        raise GitRefused(f"{busy[0]} in {work / '.git'}: finish what you began in git first")
    for key, fallback in (("user.name", "Learner"), ("user.email", "learner@localhost")):
        if not _ask(work, "config", "--get", key):
            _git(work, "config", key, fallback)
    large = [name for name in learner_files(work)[0] if (work / name).lstat().st_size > LARGE_BYTES]
    without = [_but(name) for name in large]
    refused = None
    try:
        _git(work, "add", "--all", "--ignore-errors", "--", ".", *without)
    except GitRefused as error:  # what it could take is worth a commit nevertheless
        refused = error
    if _ask(work, "diff", "--cached", "--quiet") is None:
        _git(work, "commit", "--quiet", "--no-verify", "--message", message)
    if refused:
        raise refused
    if large:
        names = ", ".join(f"{name} ({size_text((work / name).stat().st_size)})" for name in large[:5])
        return f"not in the git snapshot, as larger than {size_text(LARGE_BYTES)}: {names}"
    return None


def _but(name: str) -> str:
    """Pathspec for "not this one"; a pattern, since git refuses an ignored file by its literal name."""
    pattern = re.sub(r"([*?\\[\\\\])", r"\\\1", name)
    return ":(exclude)" + re.sub(r"([A-Za-z0-9])", r"[\1]", pattern, count=1)


def _environment() -> dict[str, str]:
    """The caller's, without what would point git to another repository, index or work tree."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }
    return kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def _git(work: Path, *arguments: str, located: bool = True) -> str:
    where = [f"--git-dir={work / '.git'}", f"--work-tree={work}"] if located else []
    quiet = ["-c", f"core.hooksPath={os.devnull}", "-c", "commit.gpgsign=false", "-c", "core.safecrlf=false"]
    quiet += ["-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "advice.addEmbeddedRepo=false"]
    try:
        done = subprocess.run(
            ["git", *quiet, *where, *arguments],
            cwd=work, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=TIMEOUT_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitRefused(f"git {arguments[0]}: {error}") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit status {done.returncode}"]
        raise GitRefused(f"git {arguments[0]}: {lines[0]}")
    return done.stdout.decode(errors="replace") or "done"


def _ask(work: Path, *arguments: str) -> str | None:
    """Output of a git command, or None where it answers with a failure."""
    try:
        return _git(work, *arguments)
    except GitRefused:
        return None
