"""Command-line errors that help: an unknown command or option is answered with the known ones."""

import difflib
import sys
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

UsageError = typer.BadParameter.__mro__[1]  # click's own; newer typer carries click inside, older ones depend on it


def fail(message: str, code: int = 1) -> NoReturn:
    """Print a message to stderr and end with an exit code other than 0."""
    print(f"labs: {message}", file=sys.stderr)
    raise SystemExit(code)


class KnownGroup(TyperGroup):
    """A group that lists its commands when one is unknown."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            raise UsageError(f"There is no command {args[0]!r}{_nearest(args[0], known)} Known: {', '.join(known)}", ctx)
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return _with_known_options(self, ctx, super().parse_args, args)


class KnownCommand(TyperCommand):
    """A command that lists its options when one is unknown."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return _with_known_options(self, ctx, super().parse_args, args)


def _with_known_options(command: Any, ctx: Any, parse: Any, args: list[str]) -> list[str]:
    try:
        return parse(ctx, args)
    except UsageError as error:
        name = getattr(error, "option_name", None)
        if type(error).__name__ != "NoSuchOption" or name is None:
            raise
        known = sorted(o for p in command.get_params(ctx) if p.param_type_name == "option" for o in p.opts)
        message = f"There is no option {name!r}{_nearest(name, known)} Known: {', '.join(known)}"
        raise UsageError(message, ctx) from error


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else "."
