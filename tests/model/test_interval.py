"""The bootstrap over documents covers the truth as often as it says."""

import pytest

np = pytest.importorskip("numpy")

from course_lib.model.interval import Estimate, ratio_interval, share  # noqa: E402


def test_the_interval_covers_the_truth_about_as_often_as_it_claims():
    draw, hits, rounds = np.random.default_rng(3), 0, 200
    for _ in range(rounds):
        sizes = draw.integers(500, 5000, 40)
        rates = draw.normal(1.2, 0.3, 40)  # documents differ; the truth over all documents is 1.2
        low, high = ratio_interval(sizes * rates, sizes)
        hits += low <= 1.2 <= high
    # 95% claimed; percentile bootstrap of 40 documents covers about 93%; 200 rounds have a standard deviation of 1.8%
    assert 0.88 <= hits / rounds <= 0.99


def test_a_wider_level_is_a_wider_interval_and_one_document_has_no_width():
    parts, wholes = [1.0, 3.0, 2.0, 8.0], [2.0, 2.0, 2.0, 2.0]
    narrow, wide = ratio_interval(parts, wholes, level=0.5), ratio_interval(parts, wholes, level=0.99)
    assert wide[0] <= narrow[0] < 14 / 8 < narrow[1] <= wide[1]
    assert ratio_interval([3.0], [2.0]) == (1.5, 1.5)


def test_it_is_deterministic_and_large_documents_weigh_more():
    assert ratio_interval([1, 2, 3], [1, 1, 1]) == ratio_interval([1, 2, 3], [1, 1, 1])
    assert share([10.0, 0.0], [10, 90]).value == 0.1
    # 20 documents of 1000 at 1 a piece beside 20 of 1 at 9: of the sums about 1.008, of the documents' ratios 5
    low, high = ratio_interval([1000.0, 9.0] * 20, [1000.0, 1.0] * 20)
    assert 1 < low < 1.008 < high < 1.1


def test_documents_without_tokens_are_left_out():
    assert share([1.0, 0.0, 2.0], [2, 0, 2]) == share([1.0, 2.0], [2, 2])


@pytest.mark.parametrize(("parts", "wholes", "level"), [([], [], 0.95), ([1], [1, 2], 0.95), ([1], [1], 1.0)])
def test_what_makes_no_interval_is_refused(parts, wholes, level):
    with pytest.raises(ValueError, match=r"document|level"):
        ratio_interval(parts, wholes, level=level)


def test_an_estimate_reads_as_a_sentence():
    assert str(Estimate(0.6123, 0.6, 0.62, 50000)) == "0.6123 [0.6, 0.62] over 50,000 tokens"
