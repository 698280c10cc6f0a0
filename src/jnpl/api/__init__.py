"""What a Python user calls: label issues in one call, the scikit-learn classifier, a monitor for other loops.

- `label_issues`: `find_label_issues` for data, `score_labels` for predictions
- `check`: new samples judged by a finished run
- `embeddings`: `embed`, the embeddings of a pretrained network
- `estimator`: `JNPLClassifier`, a scikit-learn estimator
- `monitor`: `Monitor`, a ledger for your own training loop
"""

from jnpl.api.check import check
from jnpl.api.embeddings import Embeddings, embed
from jnpl.api.estimator import JNPLClassifier
from jnpl.api.label_issues import find_label_issues, score_labels
from jnpl.api.monitor import Monitor

__all__ = ["Embeddings", "JNPLClassifier", "Monitor", "check", "embed", "find_label_issues", "score_labels"]
