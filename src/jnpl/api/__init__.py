"""What a Python user calls: label issues in one call, the scikit-learn classifier, a monitor for other loops.

- `label_issues`: `find_label_issues` for data, `score_labels` for predictions
- `estimator`: `JNPLClassifier`, a scikit-learn estimator
- `monitor`: `Monitor`, a ledger for your own training loop
"""

from jnpl.api.estimator import JNPLClassifier
from jnpl.api.label_issues import find_label_issues, score_labels
from jnpl.api.monitor import Monitor

__all__ = ["JNPLClassifier", "Monitor", "find_label_issues", "score_labels"]
