"""Catch everything a learner's code prints, so that a graded cell stays clean and a flood stays small.

nbgrader gives 0 for a cell with anything on stderr, be it one warning of a library. While a `Quiet` block runs, the Python
streams, the file descriptors 1 and 2 (C libraries, child processes) and stream objects that a logging handler took earlier
all lead into it. It keeps the first and the last 2 KiB. After the block, a thread or handler that kept its stream writes to
the notebook's stdout.
"""

import contextlib
import io
import os
import sys
import tempfile
import threading

KEEP = 2048
_ONE_AT_A_TIME = threading.RLock()  # two threads that check at once would put back each other's streams


class Excerpt(io.TextIOBase):
    """A text stream that remembers its first and last `KEEP` characters and counts the rest."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, later):
        self._later = later  # where writes go once the block is over
        self._lock = threading.Lock()
        self._head = ""
        self._tail = ""
        self.total = 0
        self.open = True

    def write(self, text) -> int:
        text = str(text)
        if not self.open:
            with contextlib.suppress(Exception):
                self._later.write(text)
            return len(text)
        with self._lock:
            self.total += len(text)
            free = KEEP - len(self._head)
            self._head += text[:free]
            if len(text) > free:
                self._tail = (self._tail + text[max(free, len(text) - KEEP) :])[-KEEP:]
        return len(text)

    def flush(self) -> None:
        if not self.open:
            with contextlib.suppress(Exception):
                self._later.flush()

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        """Stays open: whoever closes it, others go on writing."""

    @property
    def text(self) -> str:
        left_out = self.total - len(self._head) - len(self._tail)
        middle = f"\n... {left_out} characters left out ...\n" if left_out > 0 else ""
        return self._head + middle + self._tail


class Quiet:
    """`with Quiet() as quiet: ...`; afterwards `quiet.printed` is what came out, at most about 8 KiB of it."""

    def __init__(self):
        self.printed = ""

    def __enter__(self):
        _ONE_AT_A_TIME.acquire()
        self._stack = contextlib.ExitStack()
        self._stack.callback(_ONE_AT_A_TIME.release)
        self._streams = stdout, stderr = sys.stdout, sys.stderr
        self._out, self._err = Excerpt(stdout), Excerpt(stdout)
        self._file = self._redirect_descriptors()
        for stream, sink in ((stdout, self._out), (stderr, self._err)):
            self._shadow(stream, sink)
        sys.stdout, sys.stderr = self._out, self._err
        return self

    def __exit__(self, *_):
        sys.stdout, sys.stderr = self._streams
        for stream in (sys.__stdout__, sys.__stderr__):
            with contextlib.suppress(Exception):
                stream.flush()
        self._out.open = self._err.open = False
        self._stack.close()
        self.printed = self._out.text + self._err.text + self._read_descriptors()
        return False

    def _shadow(self, stream, sink) -> None:
        """A handler that holds `stream` itself writes to `sink` too; streams that refuse are left to the descriptors."""
        if stream is None or type(stream).__module__ == "io" or type(stream).__module__ == "_io":
            return
        try:
            stream.write = sink.write
        except (AttributeError, TypeError):
            return
        self._stack.callback(lambda: stream.__dict__.pop("write", None))

    def _redirect_descriptors(self):
        try:
            target = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it has been read
        except OSError:
            target = open(os.devnull, "r+b")  # noqa: SIM115 - a full or read-only disk: drop what C code prints
        for number in (1, 2):
            with contextlib.suppress(OSError):
                saved = os.dup(number)
                os.dup2(target.fileno(), number)
                self._stack.callback(self._restore, saved, number)
        return target

    @staticmethod
    def _restore(saved: int, number: int) -> None:
        with contextlib.suppress(OSError):  # the answer closed it; then there is nothing to put back
            os.dup2(saved, number)
            os.close(saved)

    def _read_descriptors(self) -> str:
        with self._file as file, contextlib.suppress(OSError):
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            head = file.read(KEEP)
            if size <= KEEP:
                return head.decode("utf-8", "replace")
            file.seek(max(KEEP, size - KEEP))
            left_out = max(0, size - 2 * KEEP)
            return (head + b"\n... %d bytes left out ...\n" % left_out + file.read(KEEP)).decode("utf-8", "replace")
        return ""
