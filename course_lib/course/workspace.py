"""The learner's copy of the labs: made once, brought up to date beside their work, carried between machines.

Layout   <work>/phaseN_name/phaseN_name.ipynb  the learner's notebooks
         <work>/.course/                       state; its presence marks a copy
Contract no function here overwrites a file that a learner edited, whatever the clocks say: bytes decide
         (workspace_place.py). A copy changes under a lock, after a snapshot in its own git repository. Each
         function returns a Report, or raises WorkspaceError with a message to show.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from .. import __version__
from . import release, workspace_jupyter
from .home import FOLDER_WHEN_INSTALLED, found_home, has_state
from .workspace_archive import export_copy
from .workspace_files import STATE, create
from .workspace_git import snapshot
from .workspace_import import import_archive
from .workspace_jupyter import far_away_hint
from .workspace_lock import locked
from .workspace_manifest import load, save
from .workspace_place import Handout, Place
from .workspace_report import Item, Report, WorkspaceError, plain_errors, size_text

__all__ = [
    "Item", "Report", "WorkspaceError", "export", "far_away_hint", "find_copy", "import_", "lab_command",
    "size_text", "start", "update",
]  # fmt: skip

TEMPLATE = Path(__file__).parent / "work_template"
TEMPLATE_FILES = {"README.md": "README.md", "AGENTS.md": "AGENTS.md", "gitignore": ".gitignore"}


def find_copy() -> Path | None:
    """The learner's copy in use, or None: $COURSE_HOME; around the working directory; the clone's work/."""
    if chosen := _chosen_home():
        return chosen if has_state(chosen) else None
    return found_home()


@plain_errors
def start(path: Path | None = None) -> Report:
    """Makes a copy, or completes one: labs that are not there yet come, nothing that is there changes.

    path  default: the copy in use, else $COURSE_HOME, else work/ of the clone, else ./llm-inference-work
    """
    work = _default_path() if path is None else _absolute(path)
    _check_suitable(work)
    handouts = _handouts()
    work.mkdir(parents=True, exist_ok=True)
    report = Report(work)
    with locked(work):
        place = _open(work, report, "Your work before labs were added")
        for handout in handouts:
            if not place.add_missing(handout):
                place.keep(handout)
        _close(place, f"Labs of course version {__version__}")
    if len(handouts) == len(TEMPLATE_FILES):
        report.say(f"no lab is released yet in {release.labs_dir()}")
    return report


@plain_errors
def update(path: Path | None = None) -> Report:
    """Brings the labs as they are released now: in place where untouched, else beside the learner's file."""
    work = _existing(path)
    handouts = _handouts()
    report = Report(work)
    with locked(work):
        place = _open(work, report, "Your work before an update")
        for handout in handouts:
            if not place.add_missing(handout):
                place.bring_up_to_date(handout)
        _close(place, f"Update to course version {__version__}")
    if not report.changed:
        report.say(f"nothing to do: {work} has all that course version {__version__} hands out")
    if report.backup:
        report.say(f"the files as they were before: {report.backup}")
    return report


def export(target: Path, path: Path | None = None) -> Report:
    """Writes the learner's files, manifest and progress to one new .zip."""
    return export_copy(_existing(path), target)


def import_(archive: Path, path: Path | None = None) -> Report:
    """Brings an archive of `export` into a copy, which it makes if there is none. What was edited stays."""
    first: list[Report] = []

    def work() -> Path:
        chosen = find_copy() if path is None else _absolute(path)
        if chosen and has_state(chosen):
            return chosen
        first.append(start(chosen))
        return first[0].path

    report = import_archive(archive, work)
    for made in first:
        report.items[:0] = made.items
        report.messages[:0] = [message for message in made.messages if message not in report.messages]
    return report


def lab_command(path: Path | None = None, extra: Sequence[str] = ()) -> tuple[list[str], dict[str, str]]:
    """(argv, environment) that open JupyterLab on the copy; to be run with the copy as current folder.

    extra  arguments for JupyterLab, passed on as they are
    """
    work = _existing(path)
    workspace_jupyter.write_settings(work)
    return workspace_jupyter.lab_command(work, extra)


def _default_path() -> Path:
    if found := find_copy():
        return found
    if chosen := _chosen_home():
        return chosen
    root = release.repo_root()
    return root / "work" if root else Path.cwd() / FOLDER_WHEN_INSTALLED


def _chosen_home() -> Path | None:
    chosen = os.environ.get("COURSE_HOME", "").strip()
    return _absolute(chosen) if chosen else None


def _absolute(path: Path | str) -> Path:
    return Path(os.path.abspath(os.path.expanduser(path)))


def _existing(path: Path | None) -> Path:
    work = find_copy() if path is None else _absolute(path)
    if work is None or not has_state(work):
        where = f"{work} is no learner's copy (no {STATE}/ in it)" if work else "no learner's copy here"
        raise WorkspaceError(f"{where}; `labs start` makes one, or name its folder")
    return work


def _check_suitable(work: Path) -> None:
    """A folder with other things in it is not taken over: its content would go into snapshots and exports."""
    if work.exists() and not work.is_dir():
        raise WorkspaceError(f"{work} is a file; give a new or an empty folder")
    root, labs = release.repo_root(), release.labs_dir()
    if work in (Path(work.anchor), _absolute("~"), root) or work == labs or labs in work.parents:
        raise WorkspaceError(f"{work} cannot be a learner's copy; give a new or an empty folder, such as {work / 'work'}")
    if has_state(work) or not work.is_dir():
        return
    there = sorted(entry.name for entry in work.iterdir())
    if there and not {one.phase for one in release.released()} & set(there):
        raise WorkspaceError(
            f"{work} is not empty (it holds {', '.join(there[:3])}{', ...' if len(there) > 3 else ''}) "
            "and no learner's copy; give a new or an empty folder"
        )


def _handouts() -> list[Handout]:
    templates = [
        Handout(name, (TEMPLATE / source).read_bytes(), __version__, "created") for source, name in TEMPLATE_FILES.items()
    ]
    labs = [Handout(one.relative, one.data, one.version) for one in release.released()]
    return [*templates, *labs]


def _open(work: Path, report: Report, message: str) -> Place:
    manifest, note = load(work)
    report.say(note)
    workspace_jupyter.write_settings(work)
    create(work / STATE / ".gitignore", b"*\n")  # whatever the learner's own .gitignore says
    report.say(snapshot(work, message))
    return Place(work, manifest, report)


def _close(place: Place, message: str) -> None:
    save(place.work, place.manifest)
    if place.report.changed:
        place.report.say(snapshot(place.work, message))
