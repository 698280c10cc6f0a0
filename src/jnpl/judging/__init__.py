"""Predictions and given labels -> label quality, label issues, suggested labels, noise rate, metrics.

- `findings`: `Findings`, the result for every sample; `findings_files`: its files; `column_checks`: what is checked
- `ledger`: `Ledger`, the predictions of the last epochs for every sample (needs torch, so it is not imported here)
- `noise_model`: noise told from overlap of the classes: calibrated label quality, noise rate with its interval
- `caveats`: what the estimated noise rate is worth, the sentence that says so, and whether labels are predicted
  better than chance
- `audit`: labels drawn at random and checked by a person: an unbiased noise rate with an exact interval
- `margins`: logit margins summed over all epochs, for the scores AUM and averaged margin (needs torch)
- `groups`: noise rates of annotators, sources or weeks
- `label_tests`: which new labels are too unlikely to be right
- `consensus`: one label from those of several annotators
- `tag_findings`: `TagFindings`, the result where samples have several tags; `tag_heads`: heads with one output per tag;
  `tag_noise`: which tags are missing, which are extra, and which are merely unclear
- `tag_sets`: the same with the set of tags as the label of a sample, for review and corrections
- `posterior`: probabilities of the true label, corrected by the estimated confusion between classes
- `threshold`: the label quality below which a label is an issue
- `out_of_fold`: predictions of linear heads that did not see the label; `trees`: such models for tables
- `scoring`: the predictions of a trained network -> `Findings`, by the recipe's settings
- `excerpts`: what a person reads of a sample in a list: the beginning of a text, the cells that decide
- `metrics`: how good a ranking and its issues are, where true labels are known
"""

from jnpl.judging.findings import Findings

__all__ = ["Findings"]
