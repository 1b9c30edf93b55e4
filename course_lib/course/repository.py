"""Where the repository is, for the commands that need its sources: build, run, grade, bench."""

from pathlib import Path


class NoRepository(RuntimeError):
    """A command that needs a clone was called outside of one."""


def repository() -> Path:
    """The clone around the working directory, or else around this package. Raises NoRepository."""
    for start in (Path.cwd(), Path(__file__).resolve().parent):
        for folder in (start, *start.parents):
            if (folder / "solutions").is_dir() and (folder / "course_lib").is_dir() and (folder / "pyproject.toml").is_file():
                return folder
    raise NoRepository(f"{Path.cwd()} is in no clone of the course; this command needs its solutions/ folder")
