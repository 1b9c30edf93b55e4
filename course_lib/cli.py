"""`labs`: the course's command line. Thin: each command calls one function of course_lib.course and shows what it returns."""

import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .claims import Verdict, select
from .cli_help import KnownCommand, KnownGroup, fail

app = typer.Typer(
    name="labs",
    cls=KnownGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
Json = Annotated[bool, typer.Option("--json", help="Print data instead of a table.")]


class PhaseName(StrEnum):
    """What a command takes as a phase: its number."""

    ONE = "1"
    TWO = "2"
    THREE = "3"
    FOUR = "4"


def main() -> None:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows a ?
    try:
        app()
    except OSError as error:  # a full disk, a folder that is not writable: the message names it
        fail(str(error))


def _version(wanted: bool) -> None:
    if wanted:
        from . import __version__

        print(f"labs {__version__}")
        raise typer.Exit


@app.callback()
def course(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """LLM inference and GPU systems engineering: run, check, grade and follow the course."""


def _command(name: str, **more: Any) -> Any:
    return app.command(name, cls=KnownCommand, **more)


def _print(renderable: Any) -> None:
    from rich.console import Console

    Console().print(renderable)


def _print_json(data: Any) -> None:
    print(json.dumps(data, indent=2))


@_command("doctor")
def doctor(as_json: Json = False) -> None:
    """Say what this machine can do for each phase, and what to repair."""
    from .course import doctor as examination

    report = examination.examine()
    _print_json(report.to_json()) if as_json else _print(examination.render(report))
    raise typer.Exit(1 if report.stops else 0)


@_command("start", context_settings={"allow_extra_args": True})
def start(
    context: typer.Context,
    folder: Annotated[Path | None, typer.Option(help="Where the copy lives; work/ in a clone.")] = None,
    open_lab: Annotated[bool, typer.Option("--open", help="Open JupyterLab on it; what follows -- goes to Jupyter.")] = False,
) -> None:
    """Make your own copy of the labs, or add those that are new. Nothing that is there is touched."""
    from .course import workspace

    report = _told(workspace.start, folder)
    if open_lab:
        import os

        from .course.workspace_jupyter import running_at

        if address := running_at(report.path):
            print(f"JupyterLab already serves this folder: {address}")
            return
        command, environment = workspace.lab_command(report.path, context.args)
        if hint := workspace.far_away_hint():
            print(hint)
        print("Starting JupyterLab; its address appears below. Ctrl-C twice stops it.", flush=True)
        os.chdir(report.path)
        os.execvpe(command[0], command, environment)


@_command("update")
def update() -> None:
    """Offer new versions of the labs beside your own notebooks."""
    from .course import workspace

    _told(workspace.update)


@_command("export")
def export(archive: Annotated[Path, typer.Argument(help="The .zip to write.")] = Path("llm-inference-work.zip")) -> None:
    """Pack your notebooks and your progress, to go on with on another machine."""
    from .course import workspace

    _told(workspace.export, archive)


@_command("import")
def import_(archive: Annotated[Path, typer.Argument(help="A .zip made by labs export.")]) -> None:
    """Take notebooks and progress from another machine; nothing here is overwritten."""
    from .course import workspace

    _told(workspace.import_, archive)


@_command("check")
def check(
    notebook: Annotated[Path, typer.Argument(help="A lab, solved as far as you are.")],
    exercises: Annotated[list[str] | None, typer.Argument(help="Exercises such as 1.1; default: all of the notebook.")] = None,
    as_json: Json = False,
) -> None:
    """Judge a notebook's exercises in a process of their own, and record the result."""
    from .course.check import CheckError, check_notebook
    from .display.verdict_table import rich_table

    verdicts, open_ones = [], 0
    try:
        for verdict, message in check_notebook(notebook, exercises or []):
            verdicts.append(verdict)
            open_ones += verdict.score + verdict.waiting_points < verdict.max_points
            if not as_json:
                _print(rich_table(verdict))
                if message:
                    print(message)
    except CheckError as error:
        fail(str(error))
    if as_json:
        _print_json([verdict.to_json() for verdict in verdicts])
    raise typer.Exit(1 if open_ones else 0)


@_command("build")
def build(
    execute: Annotated[bool, typer.Option("--execute", help="Run the solved notebooks and store the checked outputs.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; fail when something would change.")] = False,
) -> None:
    """Build the notebooks from solutions/*.py."""
    from .course.build import BuildError
    from .course.build import build as build_notebooks

    try:
        report = build_notebooks(_repository(), execute=execute, check=check, say=print)
    except (BuildError, ValueError) as error:
        fail(str(error))
    for name in report.changed:
        print(f"{'differs' if check else 'written'}: {name}")
    print(f"{len(report.changed)} {'differ' if check else 'written'}, {len(report.unchanged)} unchanged")
    if check and report.changed:
        fail("the committed notebooks are not what solutions/ builds; run: labs build")


@_command("run")
def run(phases: Annotated[list[PhaseName] | None, typer.Argument(help="Phases; default: all that exist.")] = None) -> None:
    """Execute the solved notebooks, grade them, and show the progress: the whole course in one command."""
    from .course import run as runner
    from .display.progress_table import rich_table

    root = _repository()
    wanted = {int(p.value) for p in phases or PhaseName}
    report = runner.run(root, [p for p in runner.available(root) if p.number in wanted], say=lambda text: print(text, flush=True))
    _print(rich_table(runner.summary_of_run(root)))
    if report.failures:
        fail("\n".join(report.failures))


@_command("grade")
def grade(
    phase: Annotated[PhaseName | None, typer.Argument(help="A phase; default: all.")] = None,
    student: Annotated[str, typer.Option(help="Only this student; * and ? match.")] = "*",
    where: Annotated[Path, typer.Option(help="The folder that holds submitted/STUDENT/PHASE/.")] = Path("grading"),
    feedback: Annotated[bool, typer.Option("--feedback", help="Write feedback pages as well.")] = False,
    export: Annotated[Path | None, typer.Option(help="Write the grades as CSV.")] = None,
    as_json: Json = False,
) -> None:
    """Grade the submissions of a class."""
    from .course.grade import GradeError
    from .course.grade_command import grade_folder
    from .display.grade_table import grading, rich_table

    try:
        with grading(quiet=as_json) as step:
            number = int(phase.value) if phase else None
            rows = grade_folder(_repository(), where, number, student, feedback, export, step)
    except GradeError as error:
        fail(str(error))
    except KeyboardInterrupt:
        fail("stopped; the grades so far are kept. The same command again goes on: it grades every submission anew", 130)
    _print_json([row.to_json() for row in rows]) if as_json else _print(rich_table(rows))
    raise typer.Exit(1 if any(row.score is None for row in rows) else 0)


@_command("progress")
def progress(
    exercises: Annotated[bool, typer.Option("--exercises", help="List every exercise as well.")] = False, as_json: Json = False
) -> None:
    """Show how far you are."""
    from .course.progress import summary
    from .display.progress_table import rich_table

    state = summary()
    if as_json:
        _print_json(state.to_json())
    else:
        _print(rich_table(state, exercises))


@_command("bench")
def bench(
    name: Annotated[str | None, typer.Argument(help="One benchmark; without it all of them run.")] = None,
    only_list: Annotated[bool, typer.Option("--list", help="List the benchmarks.")] = False,
) -> None:
    """Run the benchmarks of benchmarks/; results are written to benchmarks/results."""
    from .course.bench import benchmarks, run_benchmark

    root = _repository()
    if only_list:
        print("\n".join(benchmarks(root)))
        return
    try:
        codes = [run_benchmark(root, one) for one in ([name] if name else benchmarks(root))]
    except KeyError as error:
        fail(str(error.args[0]))
    raise typer.Exit(max(codes, default=0))


@_command("claims")
def claims(
    phase: Annotated[PhaseName | None, typer.Option(help="Only a phase.")] = None,
    verdict: Annotated[Verdict | None, typer.Option(help="Only this verdict.")] = None,
    ids: Annotated[list[str] | None, typer.Option("--id", help="One claim in full, such as C039; may be repeated.")] = None,
    as_json: Json = False,
) -> None:
    """List what the roadmap claims, whether it holds, and how that was checked. Fails only when arithmetic fails."""
    from .course.claims_command import claims_json, claims_view, failing

    try:
        chosen = select(phase=int(phase.value) if phase else None, verdict=verdict, ids=ids)
    except KeyError as error:
        fail(str(error.args[0]))
    if as_json:
        _print_json(claims_json(chosen))
    else:
        for part in claims_view(chosen, in_full=bool(ids)):
            _print(part)
    if broken := failing(chosen):
        fail(f"the arithmetic of {', '.join(broken)} does not give the number printed; labs claims --id {broken[0]} shows it")


def _repository() -> Path:
    from .course.repository import NoRepository, repository

    try:
        return repository()
    except NoRepository as error:
        fail(str(error))


def _told(call: Any, *args: Any) -> Any:
    """Call a function of the workspace and print its report, or end with its message."""
    from .course.workspace import WorkspaceError
    from .display.report_lines import report_lines

    try:
        report = call(*args)
    except WorkspaceError as error:
        fail(str(error))
    for line in report_lines(report):
        print(line)
    return report


if __name__ == "__main__":
    sys.exit(main())
