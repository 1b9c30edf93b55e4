"""What a notebook shows of a mistake: the lines that the learner wrote, not the hundred of the machinery between them.

IPython asks an exception that has `_render_traceback_` for its text. The exception itself keeps its whole traceback and its
cause: `import sys, traceback; traceback.print_exception(sys.last_value)` prints them.
"""

import copy
import os
from types import TracebackType


class OwnLines:
    """For exceptions that tell a caller's mistake. Not for errors of our own, whose traceback somebody will need."""

    def _render_traceback_(self) -> list[str]:
        from IPython import get_ipython

        assert isinstance(self, BaseException)
        alone = copy.copy(self)  # without its cause, which happened between the learner's lines
        shell, frames = get_ipython(), own_frames(self.__traceback__)
        if shell is None or frames is None:
            return [f"{type(self).__name__}: {self}"]
        return shell.InteractiveTB.structured_traceback(type(self), alone, frames, tb_offset=0)


def own_frames(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of the interpreter, of Triton and of IPython."""
    kept, machinery = [], _machinery()
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(machinery):
            kept.append(trace)
        trace = trace.tb_next
    rest = None
    for one in reversed(kept):
        rest = TracebackType(rest, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return rest


def _machinery() -> tuple[str, ...]:
    import IPython
    import triton

    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return tuple(os.path.join(folder, "") for folder in (ours, *(os.path.dirname(m.__file__) for m in (IPython, triton))))
