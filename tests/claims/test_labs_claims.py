"""`labs claims`: a table, one claim in full, or data; it fails when arithmetic fails, and not for what is unchecked."""

import dataclasses
import json
import sys

import pytest

from course_lib import claims, cli


def _labs(capsys, *arguments):
    """Exit code, stdout, stderr of `labs claims ARGUMENTS`, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["labs", "claims", *arguments])
        patch.setenv("COLUMNS", "100")
        with pytest.raises(SystemExit) as ended:
            cli.main()
    return (ended.value.code or 0, *capsys.readouterr())


def test_a_table_of_a_phase(capsys):
    code, out, err = _labs(capsys, "--phase", "1")
    assert (code, err) == (0, "")
    assert "53 claims. 4 correct, 10 misleading, 36 wrong" in out
    assert "C077" not in out


def test_filters_and_data(capsys):
    code, out, _ = _labs(capsys, "--phase", "1", "--verdict", "correct", "--json")
    data = json.loads(out)
    assert code == 0
    assert [one["id"] for one in data["claims"]] == ["C028", "C030", "C031", "C069"]
    assert data["verdicts"] == {"correct": 4, "misleading": 0, "wrong": 0, "to-measure": 0, "unverifiable": 0}
    assert data["claims"][0]["evidence"] == [
        {"part": str(claims.claim("C028").checks[0]), "state": "holds", "value": pytest.approx(11.2687, rel=1e-5)}
    ]


def test_one_claim_in_full(capsys):
    code, out, _ = _labs(capsys, "--id", "c039", "--id", "C061")
    assert code == 0
    assert "1000/6 = 166.667, printed as 166.7" in out
    assert "tested, nvml refuses a query before it is initialised" in " ".join(out.split())


@pytest.mark.parametrize(("arguments", "says"), [
    (("--verdict", "false"), ["'false'", "'correct'", "'misleading'", "'wrong'", "'to-measure'", "'unverifiable'"]),
    (("--phase", "7"), ["'7'", "'1', '2', '3', '4'"]),
    (("--id", "C900"), ["no claim 'C900'", "C001 to C267"]),
])  # fmt: skip
def test_what_there_is_not_is_answered_with_what_there_is(capsys, arguments, says):
    code, out, err = _labs(capsys, *arguments)
    flat = " ".join(err.replace("│", " ").split())
    assert (code != 0, out) == (True, "")
    assert [word for word in says if word not in flat] == []


def test_arithmetic_that_fails_fails_the_command(capsys, monkeypatch):
    broken = dataclasses.replace(claims.claim("C039"), how_to_check="py: 1000/6 => 166.8 ; gpu: x")
    monkeypatch.setattr(cli, "select", lambda **_: (broken, claims.claim("C050")))
    code, out, err = _labs(capsys)
    assert code == 1
    assert "1 of arithmetic that FAILS" in out
    assert "the arithmetic of C039 does not give the number printed" in err
