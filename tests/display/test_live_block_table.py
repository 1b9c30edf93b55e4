"""The figure of block tables, drawn while a model decodes with a paged cache: it shows the books of that moment."""

import pytest
import torch
from matplotlib.colors import to_rgba

from course_lib.display.block_table_figure import EMPTY, MORE_COLOURS, block_table_figure
from course_lib.model.paged_cache import PagedCache
from course_lib.model.paged_store import PagedStore
from tests.model.tiny import decoder, tokens

BLOCK, BLOCKS = 4, 24


@pytest.fixture(scope="module")
def moments():
    """Three samples of one prompt and a stranger, drawn after each step; the second sample ends on the way."""
    model, drawn = decoder(), []
    store = PagedStore(model.config, num_blocks=BLOCKS, block_size=BLOCK, dtype=model.dtype)
    ids = tokens(4, 16)
    names = ["sample 0", "sample 1", "sample 2", "stranger"]
    with torch.inference_mode():
        store.begin("sample 0")
        model(ids[:1, :9], PagedCache(store, ["sample 0"]))
        store.fork("sample 0", "sample 1")
        store.fork("sample 0", "sample 2")
        store.begin("stranger")
        model(ids[3:, :9], PagedCache(store, ["stranger"]))
        for place in range(9, 15):
            drawn.append(drawn_now(store, names))
            if place == 12:
                store.free(names.pop(1))
            rows = [int(name[-1]) if name[-1].isdigit() else 3 for name in names]
            model(ids[rows, place : place + 1], PagedCache(store, names))
    return [*drawn, drawn_now(store, names)]


def drawn_now(store, names):
    """-> (cells of each colour, empty cells, hatched blocks in memory and in tables) and the same of the books."""
    tables = {name: store.tables.blocks(name) for name in names}
    lengths = {name: store.tables.length(name) for name in names}
    upper, lower = block_table_figure(tables, lengths, BLOCKS, BLOCK, display=False).axes

    def cells(colour):
        return sum(patch.get_fill() and patch.get_facecolor() == to_rgba(colour) for patch in lower.patches)

    written = {slot for name in names for slot in store.tables.slots(name)}
    shared = {block for table in tables.values() for block in table if store.pool.ref_count(block) > 1}
    figure = {
        "written": sum(cells(colour) for colour in MORE_COLOURS[: len(names)]), "empty": cells(EMPTY),
        "hatched": sum(bool(patch.get_hatch()) for patch in lower.patches),
        "hatched entries": sum(bool(patch.get_hatch()) for patch in upper.patches),
        "entries": [text.get_text() for text in upper.texts],
    }  # fmt: skip
    books = {
        "written": len(written), "empty": BLOCKS * BLOCK - len(written), "hatched": len(shared),
        "hatched entries": sum(block in shared for table in tables.values() for block in table),
        "entries": [str(block) for table in tables.values() for block in table],
    }  # fmt: skip
    return figure, books


def test_at_every_step_a_figure_of_a_live_run_shows_what_is_written_and_hatches_what_is_shared(moments):
    for figure, books in moments:
        assert figure == books
    first, last = moments[0][1], moments[-1][1]
    assert (first["hatched"], first["hatched entries"], first["written"]) == (3, 9, 18)
    assert (last["hatched"], last["written"]) == (2, 8 + 7 + 7 + 15)  # two full blocks of the prompt, two tails, the stranger
