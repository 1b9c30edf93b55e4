"""Nothing that a learner's code prints, warns or logs reaches the streams; a flood stays small; the streams come back."""

import contextlib
import ctypes
import functools
import inspect
import io
import json
import logging
import os
import subprocess
import sys
import threading
import warnings

import pytest

from course_lib.grading.inside.quiet import KEEP, Quiet


class NotebookStream(io.StringIO):
    """Like ipykernel's OutStream: a Python object that a logging handler may have taken earlier."""


@contextlib.contextmanager
def notebook_streams():
    with contextlib.redirect_stdout(NotebookStream()) as out, contextlib.redirect_stderr(NotebookStream()) as err:
        yield out, err


def in_a_notebook(test):
    """Run a test with notebook streams as sys.stdout and sys.stderr (pytest sets its own after fixtures ran)."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        with notebook_streams() as streams:
            test(streams, *args, **kwargs)

    signature = inspect.signature(test)
    run.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
    return run


def print_in_every_way(old_stderr):
    handler = logging.StreamHandler(old_stderr)
    logging.getLogger("taken earlier").addHandler(handler)
    print("to stdout")
    print("to stderr", file=sys.stderr)
    print("to the stream itself", file=old_stderr)
    warnings.warn("a warning", stacklevel=1)
    logging.getLogger("nobody configured").warning("through logging.lastResort")
    logging.getLogger("taken earlier").warning("through an old handler")
    os.write(1, b"descriptor one\n")
    os.write(2, b"descriptor two\n")
    subprocess.run([sys.executable, "-c", "import sys; print('a child'); print('its error', file=sys.stderr)"], check=True)
    ctypes.CDLL(None).puts(b"from C")
    ctypes.CDLL(None).fflush(None)
    logging.getLogger("taken earlier").removeHandler(handler)


def in_a_process(quietly):
    """(out, err, printed) of print_in_every_way in a fresh process, where pytest does not stand between."""
    with notebook_streams() as (out, err), Quiet() if quietly else contextlib.nullcontext() as quiet:
        print_in_every_way(err)
    return out.getvalue(), err.getvalue(), quiet.printed if quietly else ""


def run_process(quietly):
    code = f"import json; from tests.grading.test_quiet import in_a_process as f; r = f({quietly}); print(json.dumps(r))"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_everything_is_caught_and_told():
    ran = run_process(quietly=True)
    out, err, printed = json.loads(ran.stdout)
    assert (out, err, ran.stderr) == ("", "", "")
    for text in ("to stdout", "to stderr", "the stream itself", "a warning", "lastResort", "an old handler", "descriptor one",
                 "descriptor two", "a child", "its error", "from C"):  # fmt: skip
        assert text in printed, text


def test_without_it_the_same_code_does_write_to_stderr():
    ran = run_process(quietly=False)
    assert "descriptor two" in ran.stderr
    _, err, _ = json.loads(ran.stdout.splitlines()[-1])
    assert "an old handler" in err
    assert "a warning" in err


@pytest.mark.parametrize("how", ["print", "descriptor", "one line"])
@in_a_notebook
def test_a_flood_keeps_its_beginning_and_end(streams, how):
    with Quiet() as quiet:
        if how == "print":
            for n in range(50_000):
                print(n)
        elif how == "one line":
            print("0\n" + "x" * 5_000_000 + "49999\n")
        else:
            os.write(1, "\n".join(map(str, range(50_000))).encode())
    assert quiet.printed.startswith("0\n")
    assert quiet.printed.rstrip().endswith("49999")
    assert "left out" in quiet.printed
    assert len(quiet.printed) < 3 * KEEP


@in_a_notebook
def test_an_exception_puts_everything_back(streams):
    out, err = streams
    with pytest.raises(ZeroDivisionError), Quiet():  # noqa: PT012 - what leaves the block is the point
        print("lost?")
        _ = 1 / 0
    assert (sys.stdout, sys.stderr) == (out, err)
    assert "write" not in vars(err)
    print("back")
    assert out.getvalue() == "back\n"


@in_a_notebook
def test_code_that_replaces_or_closes_the_streams_does_no_harm(streams):
    out, err = streams
    with Quiet():
        sys.stdout = sys.stderr = None
    assert (sys.stdout, sys.stderr) == (out, err)
    with Quiet():
        os.close(2)
    os.write(2, b"")  # the descriptor is there again


@in_a_notebook
def test_a_handler_made_inside_writes_to_stdout_afterwards_never_to_stderr(streams):
    out, err = streams
    with Quiet():
        handler = logging.StreamHandler(sys.stderr)
    logger = logging.getLogger("made inside")
    logger.addHandler(handler)
    logger.warning("later")
    thread = threading.Thread(target=lambda: print("a late thread", file=handler.stream))
    thread.start()
    thread.join()
    logger.removeHandler(handler)
    assert err.getvalue() == ""
    assert "later" in out.getvalue()
    assert "a late thread" in out.getvalue()


@in_a_notebook
def test_no_room_for_a_temporary_file_is_no_reason_to_fail(streams, monkeypatch):
    import tempfile

    def full(*_args, **_kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with Quiet() as quiet:
        print("still told")
        os.write(2, b"dropped")
    assert quiet.printed == "still told\n"
