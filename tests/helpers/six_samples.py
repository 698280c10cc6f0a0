"""Six samples of three classes: labels that are right, wrong and doubtful."""

import numpy as np

PROBS = np.array(
    [
        [0.90, 0.05, 0.05],  # 0 as 0: kept
        [0.10, 0.70, 0.20],  # 0 as 1
        [0.30, 0.30, 0.40],  # 1 as 2
        [0.45, 0.25, 0.30],  # 0, doubtful, but nothing likelier
        [0.50, 0.50, 0.00],  # 1 at exactly 0.5: kept, and 0 is not likelier
        [0.05, 0.90, 0.05],  # 2 as 1
    ]
)
LABELS = [0, 0, 1, 0, 1, 2]
