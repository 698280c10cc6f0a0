"""The parts of docs/results/review.md that are written from stored results."""

from tests.helpers.scripts import load_script


def test_what_learn_is_worth_and_the_way_to_the_copy():
    review = load_script("benchmarks/review.py")
    title = next(iter(review.KINDS))
    each = {how: {"100": 90 + at, "200": 150, "300": 190} for at, how in enumerate(review.ORDERS)}
    found = {f"learning/{title}/{seed}": each for seed in (0, 1)}
    parts = review._of_decisions(found | {"copying": {"labels": [3, 1, 2], "images": [4, 9, 5], "samples": 2000}})
    assert parts["learning"].count(f"| {title} | 2 |") == 3
    assert all(f"{90 + at}.0 ± 0.0" in parts["learning"] for at in range(3))
    assert "corrected labels of 2,000 photographs: 2.0 s" in parts["copying"]
    assert "copy of the photographs 5.0 s" in parts["copying"]
    assert review._of_decisions({}) == {}
