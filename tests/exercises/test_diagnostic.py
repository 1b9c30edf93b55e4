"""The diagnostic: right answers pass however they are written, wrong ones get a hint and something to read, nothing is kept."""

import math
from pathlib import Path

import pytest
import torch

from course_lib.exercises import diagnostic
from course_lib.exercises.diagnostic import machine, tensors


def attend(q, k, v):
    return torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), dim=-1) @ v


def attend_with_torch(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)


def attend_one_by_one(q, k, v):
    out = torch.zeros(*q.shape[:2], v.shape[2], dtype=q.dtype)
    for b in range(q.shape[0]):
        for i in range(q.shape[1]):
            weights = torch.tensor([math.exp(float(q[b, i] @ key) / q.shape[2] ** 0.5) for key in k[b]], dtype=q.dtype)
            out[b, i] = weights / weights.sum() @ v[b]
    return out


RIGHT = [
    ("product", ((10, 32), 20480)),
    ("product", ([10, 32], 10 * 32 * 64)),
    ("scores", ((2, 8, 5, 9), (2, 8, 5, 64))),
    ("scores", [[2, 8, 5, 9], torch.Size([2, 8, 5, 64])]),
    ("softmax", (1 / 8, 2 / 8, 5 / 8)),
    ("softmax", torch.tensor([0.125, 0.25, 0.625])),
    ("overflow", (float("nan"), 0.5)),
    ("overflow", [math.nan, "0.5"]),
    ("attend", attend),
    ("attend", attend_with_torch),
    ("attend", attend_one_by_one),
    ("strides", ((12, 1, 4), False)),
    ("strides", ([12, 1, 4], False)),
    ("views", {"x.T", "x[:, ::2]", "x.reshape(-1)"}),
    ("views", ["x.reshape(-1)", "x.T", "x[:, ::2]"]),
    ("offset", 80),
    ("asynchronous", (20, 405)),
    ("asynchronous", [20.0, 405.0]),
    ("kernel", (4, 3, 84, 600)),
    ("kernel", (4, 3, 3 * 128 - 300, 600.0)),
    ("copies", (0.32, 1.6)),
    ("copies", (0.3212, 1.606)),
    ("topology", ((0, 1), 1, 1)),
    ("topology", ({1, 0}, 1, 1)),
    ("link", (15.75, 63.0)),
    ("link", (16, 64)),
]
WRONG = [  # (question, answer, a part of what is said)
    ("product", ((10, 64), 20480), "inner dimension"),
    ("product", ((10, 32), 40960), "additions"),
    ("product", ((10, 32), 320), "one value"),
    ("scores", ((2, 8, 5, 64), (2, 8, 5, 64)), "Each query"),
    ("scores", ((2, 8, 5, 9), (2, 8, 9, 64)), "scores are right"),
    ("softmax", (1, 2, 5), "exponentials"),
    ("softmax", (1 / 3, 1 / 3, 1 / 3), "ln 2"),
    ("softmax", (0.125, 0.25), "ln 2"),
    ("softmax", (0.125, 0.25, 0.61), "ln 2"),
    ("overflow", (0.5, 0.5), "first"),
    ("overflow", (float("nan"), 1.0), "second"),
    ("attend", lambda q, k, v: (q @ k.mT).softmax(-1) @ v, "scaled"),
    ("attend", lambda q, k, v: (q @ k.mT / 4).softmax(1) @ v, "over the queries"),
    ("attend", lambda q, k, v: (q @ k.mT / 16).softmax(-1) @ v, "square root"),
    ("attend", lambda q, k, v: q @ k.mT / 4 @ v, "no softmax"),
    ("attend", lambda q, k, v: v, "shape"),
    ("attend", lambda q, k, v: q * 0, "values are not"),
    ("attend", lambda q: q, "Asked for"),
    ("strides", ((12, 4, 1), False), "swaps"),
    ("strides", ((12, 1, 4), True), "Contiguous"),
    ("views", set(), "more share"),
    ("views", set(tensors.VIEWS), "of their own"),
    ("views", {"x.t()"}, "none of the six"),
    ("offset", 20, "elements"),
    ("offset", 52, "y[2, 1]"),
    ("asynchronous", (400, 400), "queued"),
    ("asynchronous", (20, 400), "begin"),
    ("asynchronous", (20, 420), "one kernel after"),
    ("kernel", (300, 3, 84, 600), "programs"),
    ("kernel", (4, 2, 84, 600), "rounds"),
    ("kernel", (4, 3, 44, 600), "masked"),
    ("kernel", (4, 3, 84, 900), "out[2]"),
    ("copies", (0.16, 0.8), "two bytes"),
    ("copies", (1.6, 0.32), "Bytes over"),
    ("topology", ((0, 2), 1, 1), "NVLink"),
    ("topology", ((0, 1), 0, 1), "shortest"),
    ("topology", ((0, 1), 1, 0), "NUMA"),
    ("link", (128, 512), "gigabits"),
    ("link", (63, 15.75), "other way round"),
    ("link", (1, 2), "Transfers"),
    ("link", (15.75, 32), "Transfers"),
    ("copies", (0.32, 1.7), "Bytes over"),
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_a_right_answer_is_right(name, answer, capsys):
    diagnostic.check(name, answer)
    assert capsys.readouterr().out == f"{name}: right\n"


@pytest.mark.parametrize(("name", "answer", "says"), WRONG)
def test_a_wrong_answer_gets_a_hint_and_something_to_read(name, answer, says, capsys):
    diagnostic.check(name, answer)
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{name}: not yet. ")
    assert says in first
    assert second == f"To read: {diagnostic.QUESTIONS[name].read}"


def test_every_question_has_right_and_wrong_answers_here():
    assert {name for name, _ in RIGHT} == {name for name, *_ in WRONG} == set(diagnostic.QUESTIONS)


@pytest.mark.parametrize("name", diagnostic.QUESTIONS)
@pytest.mark.parametrize("answer", [0, "yes", (), [None] * 4, {"a": 1}, object(), lambda: 1 / 0, math.nan, torch.zeros(3)])
def test_an_answer_of_another_form_is_told_so_and_raises_nothing(name, answer, capsys):
    diagnostic.check(name, answer)
    out, err = capsys.readouterr()
    assert out.startswith(f"{name}: not yet. ")
    assert err == ""


@pytest.mark.parametrize("name", diagnostic.QUESTIONS)
def test_an_open_question_says_what_is_asked_for(name, capsys):
    diagnostic.check(name, None)
    assert capsys.readouterr().out == f"{name}: open. Asked for: {diagnostic.QUESTIONS[name].form}\n"


def test_the_function_that_the_notebook_starts_with_is_open(capsys):
    diagnostic.check("attend", lambda q, k, v: None)
    assert "attend: open" in capsys.readouterr().out


def test_an_unknown_question_names_those_there_are():
    with pytest.raises(KeyError, match="strides"):
        diagnostic.check("stride", 1)


def test_the_summary_counts_and_writes_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(diagnostic, "_seen", {})
    monkeypatch.chdir(tmp_path)
    diagnostic.check("offset", 80)
    diagnostic.check("strides", 1)
    capsys.readouterr()
    diagnostic.summary()
    out = capsys.readouterr().out
    assert "kernels: 1 of 5 right (1 not yet, 3 open)" in out
    assert out.count("to read:") == 1
    assert "Nothing of this is recorded" in out
    assert not list(Path(tmp_path).rglob("*"))


def test_the_kernel_that_is_shown_does_what_the_question_says(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    from course_lib.interpreter import switch

    (tmp_path / "shown_kernel.py").write_text(f"import torch\nimport triton\nimport triton.language as tl\n\n\n{tensors.KERNEL}")
    monkeypatch.syspath_prepend(tmp_path)
    with switch.interpreting():
        from shown_kernel import row_sums

        out = row_sums(torch.arange(4.0)[:, None].expand(4, 300).contiguous())
    assert out.tolist() == [0.0, 300.0, 600.0, 900.0]
    assert tensors.kernel_by_hand(4, 300, 128) == (4, 3, 84, 600.0)


def test_the_topology_is_read_as_nvidia_smi_prints_it():
    links, numa = machine.parsed_topology()
    assert links["GPU0", "GPU1"] == links["GPU1", "GPU0"] == "NV4"
    assert links["NIC0", "GPU1"] == "PIX"
    assert numa == {"GPU0": 0, "GPU1": 0, "GPU2": 1, "GPU3": 1}
    assert all(links[a, b] == links[b, a] for a in numa for b in numa)


def test_a_pcie_link_has_the_rates_of_the_standard():
    # PCI Express 4.0 and 5.0, 128b/130b: 1.969 and 3.938 GB/s a lane
    assert machine.link_gb_per_s("Speed 16GT/s (downgraded), Width x8") == pytest.approx(15.75, rel=1e-3)
    assert machine.link_gb_per_s("Speed 32GT/s, Width x16") == pytest.approx(63.01, rel=1e-3)
