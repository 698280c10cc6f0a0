"""Predictions and given labels -> label quality, verdicts, suggested labels, noise rate, metrics."""

from jnpl.findings.findings import Findings
from jnpl.findings.ledger import Ledger

__all__ = ["Findings", "Ledger"]
