"""Strange answers end in a verdict that can be written, and what works in a notebook works in the judge."""

import gc
import threading

import nbformat
import pytest
import torch

from course_lib import lab
from course_lib.course.judge import judge
from course_lib.course.live import check_live
from course_lib.course.shown import Shown
from course_lib.exercises import exercise

RIGHT = "def ridge_points(p, b):\n    return p.double() * 1e3 / b.double()[:, None]\n"


def live_verdict(source):
    space = {"torch": torch, "__name__": "__main__"}
    exec(source, space)
    return check_live("1.1", space["ridge_points"], seed=3)


def judged(*sources, number="1.1"):
    cells = [nbformat.v4.new_code_cell("import torch", metadata={"nbgrader": {"grade_id": "setup"}})]
    for name, source in sources:
        cells.append(nbformat.v4.new_code_cell(source, metadata={"nbgrader": {"grade_id": name}} if name else {}))
    return judge(nbformat.v4.new_notebook(cells=cells), exercise(number), seed=3)


STRANGE = {
    "an int too long to print": "def ridge_points(p, b): return 10**5000",
    "an exception with a lone surrogate": "def ridge_points(p, b): raise ValueError('\\ud800')",
    "an object of a class of its own": "class Foo: pass\ndef ridge_points(p, b): return Foo()",
    "a default that cannot be printed": "class E:\n    def __repr__(self): raise RuntimeError\n"
    "def ridge_points(p, b, c, d=E()): pass",
    "a message that is a strange text": "class S(str):\n    def __getitem__(self, i): raise RuntimeError\n"
    "class E(Exception):\n    def __str__(self): return S('x')\ndef ridge_points(p, b): raise E",
}


@pytest.mark.parametrize("name", STRANGE)
def test_a_strange_answer_fails_alike_in_both_and_its_verdict_can_be_written(name):
    live, apart = live_verdict(STRANGE[name]), judged(("ex-1-1", STRANGE[name]))
    ends = [[(o.name, o.state, o.points, o.reason.split(" (line")[0]) for o in v.outcomes] for v in (live, apart)]
    assert ends[0] == ends[1]
    assert live.score == 0.0
    str(Shown(live)._repr_mimebundle_()).encode()


def test_a_list_that_doubles_without_end_comes_to_one():
    from course_lib.grading.inside.attempt import attempt

    doubling = "def ridge_points(p, b):\n    x = []\n    for _ in range(40): x = [x, x]\n    return x"
    space = {}
    exec(doubling, space)
    record = attempt(lambda entry, case: entry(0, 0), space["ridge_points"], {"name": "one"})
    assert "more than the 262144 values that cross" in str(record["output"])


def test_a_printed_surrogate_costs_nothing():
    live = live_verdict(RIGHT.replace(":\n", ":\n    print('\\ud800')\n", 1))
    assert live.score == 4.0
    str(Shown(live)._repr_mimebundle_()).encode()


def test_what_an_output_says_when_it_goes_is_not_on_stderr(capfd):
    live_verdict("async def ridge_points(p, b): return p")
    late = "import sys\nclass D:\n    def __del__(self): print('late', file=sys.stderr)\n"
    live_verdict(late + "def ridge_points(p, b): return D()")
    gc.collect()
    assert capfd.readouterr().err == ""


def test_a_default_device_of_the_notebook_does_not_matter():
    try:
        torch.set_default_device("meta")
        assert live_verdict(RIGHT).score == 4.0
    finally:
        torch.set_default_device(None)
    assert judged(("ex-1-1", "torch.set_default_device('meta')\n" + RIGHT)).score == 4.0


def test_two_threads_that_check_at_once_leave_the_streams_as_they_were(capfd):
    import sys

    before, scores = (sys.stdout, sys.stderr), []
    threads = [threading.Thread(target=lambda: scores.append(live_verdict(RIGHT).score)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scores == [4.0] * 4
    assert (sys.stdout, sys.stderr) == before
    print("still here")
    assert capfd.readouterr().out == "still here\n"


SAME_AS_LIVE = {
    "%%time": "%%time\n" + RIGHT,
    "help": RIGHT + "ridge_points?",
    "magic and an operator": "%matplotlib inline\nK = (1000\n     % 3001)\n" + RIGHT,
    "magic in a block": "if True:\n    %pwd\n" + RIGHT,
    "shell into a name": "x = !ls\n" + RIGHT,
    "await": "import asyncio\nawait asyncio.sleep(0)\n" + RIGHT,
    "an own test that fails": RIGHT + "assert False, 'my own test'",
    "guard": "if __name__ == '__main__':\n    K = 1e3\n" + RIGHT.replace("1e3", "K"),
    "display": "display(1)\n" + RIGHT,
    "a check in the cell": RIGHT + "float(lab.check('1.1', ridge_points))",
    "course import": "from course_lib.hardware import spec\n" + RIGHT,
}


@pytest.mark.parametrize("name", SAME_AS_LIVE)
def test_what_works_in_a_notebook_works_in_the_judge(name):
    assert judged(("ex-1-1", SAME_AS_LIVE[name])).score == 4.0


def test_a_future_import_holds_for_later_cells():
    source = RIGHT.replace("(p,", "(p: Unknown,")
    assert judged(("", "from __future__ import annotations"), ("ex-1-1", source)).score == 4.0
    assert judged(("ex-1-1", source)).score == 0.0


def test_an_earlier_answer_that_exits_costs_the_later_one_nothing():
    assert judged(("ex-1-0", "import sys; sys.exit()"), ("ex-1-1", RIGHT)).score == 4.0


def test_a_part_of_the_library_that_is_used_is_named():
    source = "from course_lib.roofline import ridge_points as reference\ndef ridge_points(p, b): return reference(p, b)"
    verdict = judged(("ex-1-1", source))
    assert verdict.score == 0.0
    assert "'from course_lib.roofline import ridge_points as reference' was left out" in verdict.outcomes[0].reason


def test_a_check_inside_the_answer_that_it_checks_comes_to_an_end():
    source = "def ridge_points(p, b):\n    global inner\n    inner = lab.check('1.1', ridge_points)\n    return p"
    space = {"lab": lab}
    exec(source, space)
    assert check_live("1.1", space["ridge_points"]).score == 0.0
    assert "called inside the answer" in space["inner"].verdict.outcomes[0].reason
    space = {"lab": lab}
    exec("def ridge_points(p, b):\n    float(lab.check('9.9', None))\n" + RIGHT.split("\n", 1)[1], space)
    assert check_live("1.1", space["ridge_points"]).score == 4.0
