"""Figure 3: its claims, agreeing and disagreeing."""

import pytest

RISING = [0.1 + 0.01 * epoch for epoch in range(30)]


@pytest.mark.parametrize(
    ("offsets", "status"),
    [
        ((0, 1, 2, 3, 4), "agrees"),
        ((4, 3, 2, 1, 0), "disagrees"),
        ((0, 1, 2, 4, 3), "agrees"),
        ((2, 0, 1, 4, 1), "disagrees"),
        ((0, 0.1, 0.2, 0.3, 0.4), "no difference"),
    ],
)
def test_a_larger_n_is_faster(made, offsets, status):
    for variant, offset in zip(("jnpl-ce", "jnpl-n0", "jnpl-n1", "jnpl-n2", "jnpl"), offsets, strict=True):
        made.run(variant, curve=[value + 0.01 * offset for value in RISING])
    assert made.verdict("larger-n").status == status
