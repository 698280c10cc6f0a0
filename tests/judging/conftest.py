import pytest
from tests.helpers.six_samples import LABELS, PROBS

from jnpl.judging import Findings


@pytest.fixture
def findings():
    return Findings.from_probs(PROBS, LABELS)
