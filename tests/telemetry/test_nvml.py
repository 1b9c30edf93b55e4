"""A session opens NVML once and closes it once, and every refusal is a sentence."""

import subprocess
import sys

import pytest

from course_lib.telemetry import NvmlUnavailableError, handle_of, sentence, session

from .fake_nvml import NVMLError


def test_nvml_asked_before_init_is_refused(driver):
    """Claim C061: NVML cannot be queried without initialisation."""
    fake = driver()
    with pytest.raises(NVMLError) as refused:
        fake.nvmlDeviceGetHandleByIndex(0)
    assert "Uninitialized" in str(refused.value)
    assert "before nvmlInit; open a session first" in sentence(refused.value)


def test_the_real_binding_too_refuses_before_init():
    """In a fresh process, with or without a driver: the binding itself answers Uninitialized."""
    code = (
        "import pynvml\ntry: pynvml.nvmlDeviceGetCount()\n"
        "except pynvml.NVMLError as e:\n from course_lib.telemetry import sentence\n print(type(e).__name__, '|', sentence(e))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("NVMLError_Uninitialized | NVML says 'Uninitialized': ")


def test_nested_sessions_open_and_close_once(driver):
    fake = driver()
    with session() as outer, session() as inner:
        assert outer is inner is fake
        assert handle_of(outer, 3) == "handle 3"
    assert (fake.inits, fake.shutdowns) == (1, 1)
    with session():
        pass
    assert (fake.inits, fake.shutdowns) == (2, 2)


def test_a_block_that_raises_closes_all_the_same(driver):
    fake = driver()
    with pytest.raises(ZeroDivisionError), session():
        1 / 0  # noqa: B018
    assert (fake.inits, fake.shutdowns) == (1, 1)


def test_no_driver_is_a_sentence_that_says_what_to_do(driver):
    driver(refuse={"nvmlInit": 12})
    with pytest.raises(NvmlUnavailableError, match=r"libnvidia-ml\.so\.1 is not here"), session():
        pass
    fake = driver()
    with session():  # the failed one is not counted as open
        assert fake.inits == 1


def test_no_binding_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(NvmlUnavailableError, match="pip install nvidia-ml-py"), session():
        pass


def test_a_device_that_nvml_does_not_know(driver):
    driver(refuse={"nvmlDeviceGetHandleByUUID": 6})
    with session() as nvml, pytest.raises(NvmlUnavailableError, match=r"'GPU-x': .*does not find this device"):
        handle_of(nvml, "GPU-x")


def test_an_unknown_code_still_makes_a_sentence():
    assert sentence(NVMLError(777)) == "NVML says 'Unknown Error' (code 777)"


def test_importing_telemetry_loads_neither_the_binding_nor_torch():
    code = "import sys, course_lib.telemetry; print({'pynvml', 'torch'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
