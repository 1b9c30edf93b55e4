"""`lab.check` on bad input: a clear verdict, never a traceback of ours, never full points, never a word on stderr."""

import _thread
import logging
import sys
import threading
import time
import warnings

import pytest
import torch

from course_lib import lab
from course_lib.exercises import exercise
from course_lib.grading.outcome import ExerciseState
from course_lib.grading.verdict import MIME, Verdict


def right(peak_tflops, hbm_gb_per_s):
    return peak_tflops.double() * 1e3 / hbm_gb_per_s.double()[:, None]


class EqualToEverything:
    def __eq__(self, other):
        return True

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        return self


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no message for you")


def raises(peak_tflops, hbm_gb_per_s):
    return {}["missing"]


def raises_unprintable(peak_tflops, hbm_gb_per_s):
    raise Unprintable


def raises_system_exit(peak_tflops, hbm_gb_per_s):
    sys.exit("bye")


def recurses(peak_tflops, hbm_gb_per_s):
    return recurses(peak_tflops, hbm_gb_per_s)


def generator(peak_tflops, hbm_gb_per_s):
    yield peak_tflops


async def coroutine(peak_tflops, hbm_gb_per_s):
    return right(peak_tflops, hbm_gb_per_s)


def returning(make):
    def answer(peak_tflops, hbm_gb_per_s):
        return make(right(peak_tflops, hbm_gb_per_s), peak_tflops)

    return answer


def huge_int(peak_tflops, hbm_gb_per_s):
    return 10**5000


class Unnameable:
    def __repr__(self):
        raise RuntimeError("no name")

    __str__ = __repr__


class Callable:
    def __call__(self, peak_tflops, hbm_gb_per_s):
        return right(peak_tflops, hbm_gb_per_s)


BAD = {
    "no function": (42, "got int 42"),
    "None": (None, "got None"),
    "a class": (Callable, "got the class Callable"),
    "a string": ("ridge_points", "got str 'ridge_points'"),
    "one parameter": (lambda peak_tflops: peak_tflops, "yours takes (peak_tflops)"),
    "three parameters": (lambda a, b, c: a, "yours takes (a, b, c)"),
    "keywords only": (lambda *, peak_tflops, hbm_gb_per_s: 0, "yours takes (*, peak_tflops, hbm_gb_per_s)"),
    "equal to everything": (EqualToEverything(), "EqualToEverything"),
    "raises": (raises, "raised KeyError: 'missing' (line"),
    "raises what cannot be printed": (raises_unprintable, "message could not be printed"),
    "sys.exit": (raises_system_exit, "called sys.exit(bye)"),
    "recursion": (recurses, "RecursionError"),
    "generator": (generator, "expected a tensor of shape"),
    "nothing": (returning(lambda out, _: None), "is a return missing?"),
    "a float": (returning(lambda out, _: float(out.flatten()[0])), "got float"),
    "a list": (returning(lambda out, _: out.tolist()), "got a list of"),
    "numpy": (returning(lambda out, _: out.numpy()), "numpy.ndarray"),
    "float32": (returning(lambda out, _: out.float()), "expected dtype float64, got float32"),
    "another shape": (returning(lambda out, _: out[:, :, None]), "expected shape"),
    "NaN": (returning(lambda out, _: out * torch.nan), "got nan"),
    "a view of the input": (returning(lambda out, peak: peak.view(peak.shape)), "shares memory with the input peak_tflops"),
    "written into the input": (returning(lambda out, peak: peak.copy_(out)), "changed its input peak_tflops"),
    "an object equal to everything": (returning(lambda out, _: EqualToEverything()), "EqualToEverything"),
    "a tensor subclass": (returning(lambda out, _: out.as_subclass(type("Lazy", (torch.Tensor,), {}))), "Lazy"),
    "an int of 5000 digits": (huge_int, "got int"),
    "a list of such ints": (lambda peak_tflops, hbm_gb_per_s: [10**5000], "got a list of"),
    "such an int as the function": (10**5000, "got int"),
    "what cannot print itself": (lambda peak_tflops, hbm_gb_per_s: Unnameable(), "Unnameable"),
    "an operation that torch lacks": (lambda peak_tflops, hbm_gb_per_s: torch.ones(2).to(torch.float8_e4m3fn) * 2, "raised Not"),
    "sparse": (returning(lambda out, _: out.to_sparse()), "does not cross"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_clear_verdict_and_no_points(name, capfd):
    entry, words = BAD[name]
    shown = lab.check("1.1", entry)
    assert shown.verdict.score == 0
    assert shown.verdict.state is ExerciseState.PARTIAL
    assert words in shown.verdict.outcomes[0].reason
    assert "Traceback" not in str(shown._repr_mimebundle_())
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_coroutine_is_no_answer(capfd):
    shown = lab.check("1.1", coroutine)
    assert "expected a tensor" in shown.verdict.outcomes[0].reason
    assert capfd.readouterr().err == ""


UNKNOWN = ["9.9", "", None, 1.1, "x" * 10_000, ["1.1"], Unnameable(), 10**5000]


@pytest.mark.parametrize("number", UNKNOWN, ids=lambda v: type(v).__name__)
def test_an_unknown_exercise_lists_the_known_ones(number):
    for check in (lab.check, lab.check_timed):
        shown = check(number, right)
        assert repr(shown) == "0.0"
        assert "the course has 1.1" in shown.verdict.note
        assert ('write the number as text: "1.1"' in shown.verdict.note) == (number == 1.1)
        assert len(shown._repr_mimebundle_()["text/html"]) < 2000


def test_a_right_answer_earns_its_points_as_a_plain_number():
    shown = lab.check("1.1", right)
    bundle = shown._repr_mimebundle_()
    assert bundle["text/plain"] == "4.0"
    assert float(shown) == 4.0
    assert Verdict.from_json(bundle[MIME]) == shown.verdict
    assert "done, 4 of 4 points" in bundle["text/html"]


def test_a_callable_object_is_as_good_as_a_function():
    assert float(lab.check("1.1", Callable())) == 4.0


def test_whatever_a_right_answer_prints_warns_or_logs_it_keeps_its_points(capfd):
    def noisy(peak_tflops, hbm_gb_per_s):
        print("x" * 1_000_000)
        print("progress 100%", file=sys.stderr)
        warnings.warn("deprecated", stacklevel=1)
        logging.warning("logged")
        return right(peak_tflops, hbm_gb_per_s)

    shown = lab.check("1.1", noisy)
    assert float(shown) == 4.0
    assert capfd.readouterr() == ("", "")
    assert "progress 100%" in shown.verdict.context["printed"]
    assert len(shown._repr_mimebundle_()["text/html"]) < 20_000


def test_an_endless_answer_can_be_interrupted_and_ends_in_a_verdict():
    def endless(peak_tflops, hbm_gb_per_s):
        while True:
            time.sleep(0.01)

    timer = threading.Timer(0.5, _thread.interrupt_main)
    timer.start()
    shown = lab.check("1.1", endless)
    timer.join()
    assert "was interrupted after" in shown.verdict.outcomes[0].reason
    assert shown.verdict.score == 0
    assert sys.stdout.write  # the streams are back
    assert float(lab.check("1.1", right)) == 4.0


def test_an_open_exercise_is_open_and_quotes_its_number():
    def stub(peak_tflops, hbm_gb_per_s):
        raise NotImplementedError("1.1: ridge_points(peak_tflops, hbm_gb_per_s) is yours to write")

    for check in (lab.check, lab.check_timed):
        shown = check("1.1", stub)
        assert shown.verdict.state is ExerciseState.OPEN
        assert "1.1: ridge_points" in shown._repr_mimebundle_()["text/html"]
        assert float(shown) == 0.0
        assert shown.verdict.waiting_points == 0


@pytest.mark.skipif(torch.cuda.is_available(), reason="on a GPU these points are judged")
def test_without_a_gpu_timed_points_wait_for_a_right_answer_and_a_wrong_one_fails():
    assert lab.check_timed("1.1", right).verdict.state is ExerciseState.WAITING
    wrong = lab.check_timed("1.1", lambda a, b: a.double() / b.double()[:, None]).verdict
    assert (wrong.state, wrong.waiting_points) == (ExerciseState.PARTIAL, 0)


def test_learner_text_cannot_reach_the_page_as_html():
    def attack(peak_tflops, hbm_gb_per_s):
        print("<script>alert(1)</script>")
        raise ValueError("<img src=x onerror=alert(1)>")

    html = lab.check("1.1", attack)._repr_mimebundle_()["text/html"]
    assert "<script" not in html
    assert "<img" not in html


def test_a_seed_repeats_the_verdict_and_is_told():
    seed = int(lab.check("1.1", right).verdict.context["seed"])
    first, again = (lab.check("1.1", lambda a, b: a / 3 * b[:, None], seed=seed).verdict for _ in range(2))
    assert first.outcomes == again.outcomes


def test_a_shadowed_torch_in_the_notebook_does_not_reach_the_check(monkeypatch):
    assert exercise("1.1").entry == "ridge_points"
    space = {}
    exec("torch = None; sum = max; range = list; np = 1\ndef f(a, b):\n    return a.double() * 1e3 / b.double()[:, None]", space)
    assert float(lab.check("1.1", space["f"])) == 4.0
