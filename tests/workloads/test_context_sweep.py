"""The sweep over contexts times one graph for each, of stacks that share their weights."""

from types import SimpleNamespace

from course_lib.workloads import context_sweep as sweep
from course_lib.workloads import decode_stack
from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, stack_bytes


def test_each_context_has_a_row_and_the_weights_are_made_once(monkeypatch):
    made = []

    class Stack:
        def __init__(self, numbers, layers, batch, context, *, weights):
            assert (numbers, layers, batch, weights) == (LLAMA_3_8B_NUMBERS, 8, 4, "weights")
            self.context = context

        def graph(self):
            return lambda: self.context

    def random(numbers, layers):
        made.append(layers)
        return "weights"

    monkeypatch.setattr(decode_stack, "DecodeStack", Stack)
    monkeypatch.setattr(decode_stack.StackWeights, "random", random)
    rows = sweep.context_sweep(lambda call: SimpleNamespace(median_seconds=call(), seconds=(call() - 1, call() + 1)), (5, 9))
    assert rows == [(5, 5, 4, 6), (9, 9, 8, 10)]
    assert made == [8]


def test_the_longest_context_fits_a_gpu_of_24_gb_and_brackets_the_claim():
    assert stack_bytes(LLAMA_3_8B_NUMBERS, sweep.LAYERS, sweep.BATCH, max(sweep.CONTEXTS)) < 12e9
    assert min(sweep.CONTEXTS) < 8192 < max(sweep.CONTEXTS)
