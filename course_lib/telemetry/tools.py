"""Which tool answers which question about a GPU: the table of section 7 as data.

Sources   NVML API reference (nvmlUtilization_t, nvmlGpmMetricId_t), DCGM user guide (profiling metrics), user guides of Nsight
          Systems and Nsight Compute, torch.profiler documentation.
"""

from dataclasses import dataclass

QUESTIONS = {
    "kernel time": "how long did this kernel run",
    "activity": "how busy were tensor cores and memory",
    "stalls": "why does this kernel take so long",
    "power": "what did it draw, at which clocks",
    "tokens": "how long did a user wait for a token",
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool and the questions that it answers, keys of QUESTIONS."""

    name: str
    sees: tuple[str, ...]


TOOLS = (
    Tool("NVML, nvidia-smi, nvtop", ("power",)),
    Tool("GPM (NVML, Hopper on)", ("activity",)),
    Tool("DCGM and its exporter", ("activity", "power")),
    Tool("CUDA events (section 3)", ("kernel time",)),
    Tool("torch.profiler", ("kernel time",)),
    Tool("Nsight Systems (nsys)", ("kernel time", "activity")),
    Tool("Nsight Compute (ncu)", ("kernel time", "activity", "stalls")),
    Tool("the engine's histograms", ("tokens",)),
)


def who_sees(question: str) -> list[str]:
    """Names of the tools that answer a question of QUESTIONS. Raises ValueError, naming them, for another one."""
    if question not in QUESTIONS:
        raise ValueError(f"no question {question!r}; ask one of {', '.join(QUESTIONS)}")
    return [tool.name for tool in TOOLS if question in tool.sees]
