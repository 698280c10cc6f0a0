"""The claims of the paper, each with a rule that was fixed before the figures were seen, and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jnpl.experiments.reproduce.judges import curves, filters, final

if TYPE_CHECKING:
    from collections.abc import Callable

    from jnpl.experiments.reproduce.judges.answers import Answer, Status
    from jnpl.experiments.reproduce.results import Results


@dataclass(frozen=True)
class Verdict:
    """A claim, whether our figures bear it out, by which rule, and the figures."""

    name: str
    item: str
    claim: str
    rule: str
    status: Status
    figures: str


class Claim(NamedTuple):
    """What the paper says of an item, and how it is judged."""

    name: str
    item: str
    claim: str
    rule: str
    judge: Callable[[Results], Answer]


CLAIMS = (
    Claim(
        "one-stage",
        "fig1",
        "JNPL parts right from wrong labels in one stage as well as NLNL in three.",
        "At 60 % symmetric noise the share of labels on their side of p_y = 0.5, the mean of right and wrong ones, is "
        "at most one point below that after SelPL, and at least 60 % (of a blind filter it is 50 %). Only seeds that "
        "both have.",
        filters.one_stage,
    ),
    Claim(
        "converges",
        "fig2",
        "NL+ converges better than NL.",
        "After NL+, right and wrong labels lie further apart in p_y (by 0.01 or more) and have a higher AP (by 0.005 "
        "or more) than after NL, at 20, 40 and 60 % symmetric noise. NL has the epochs and schedule of NL+ (at scale "
        "paper it is NLNL's own first stage: 720 epochs against 1,000).",
        filters.converges,
    ),
    Claim(
        "larger-n",
        "fig3",
        "PL+ with a larger N learns faster.",
        "The mean accuracy from the epoch at which PL+ begins rises from CE to N = 3: Kendall's tau is 0.6 or more, "
        "and N = 3 beats CE (if all lie within half a point, that is taken for chance). Only seeds that all five have.",
        curves.larger_is_faster,
    ),
    Claim(
        "reaches",
        "fig4",
        "NL+ alone reaches the accuracy of NL followed by SelNL.",
        "After as many epochs as NL and SelNL have (at its end, if it has fewer) its test accuracy, the mean of five "
        "epochs, is at most one point below theirs, and at least twice that of chance. Only seeds that both have.",
        curves.reaches,
    ),
    Claim(
        "speeds-up",
        "fig4",
        "PL+ beside NL+ makes training faster.",
        "The mean accuracy from the epoch at which PL+ begins is higher with it (a difference below half a point is "
        "taken for chance). Only seeds that both have.",
        curves.speeds_up,
    ),
    Claim(
        "overtakes",
        "fig4",
        "NL+ and JNPL overtake NLNL in accuracy, and do not overfit.",
        "At 60 % symmetric noise both end half a point or more above NLNL's last stage, and at most two points below "
        "their own best epoch (means of five epochs). Only seeds that all three have.",
        curves.overtakes,
    ),
    Claim(
        "filters-better",
        "fig5",
        "JNPL filters wrong labels better than NLNL.",
        "Its AP is higher by 0.005 or more on average, and higher in more than half of the settings, by both "
        "definitions of AP and on each data set.",
        filters.filters_better,
    ),
    Claim(
        "lead-grows",
        "fig5",
        "JNPL's lead over NLNL in AP grows with the noise.",
        "The lead rises by 0.005 or more for every 10 % (least squares) and is one at the highest rate, for both "
        "noises, by both definitions of AP and on each data set.",
        filters.lead_grows,
    ),
    Claim(
        "cats-part",
        "fig6",
        "With cats and dogs mixed up, NL+ parts right from wrong labels and SelNL does not.",
        "Among samples labelled cat at 40 % asymmetric noise, NL+'s area under the ROC curve is 0.05 or more above "
        "SelNL's and at least 0.6 (chance: 0.5), and right and wrong labels lie further apart; SelNL's is less than "
        "0.05 above that of NL.",
        filters.cats_part,
    ),
    Claim(
        "best",
        "table1",
        "JNPL outperforms the other methods overall.",
        "It has the highest accuracy of the paper's seven methods in more than half of the settings. A run whose "
        "second part came to no classifier counts as chance. Only seeds that all seven have.",
        final.best_of_table,
    ),
    Claim(
        "table-lead",
        "table1",
        "JNPL's lead in accuracy grows with the noise.",
        "Its accuracy less that of the best other method is larger at the highest than at the lowest rate, by half a "
        "point or more, and above zero there, for both noises and on each data set. A run whose second part came to "
        "no classifier counts as chance. Only seeds that all seven have.",
        final.table_lead_grows,
    ),
    Claim(
        "clothing", "table2", "JNPL reaches 74.15 % on Clothing1M.", "Ours is at most one point below.", final.clothing
    ),
)


def verdicts(results: Results) -> list[Verdict]:
    """All claims, judged by the results there are."""
    return [Verdict(*each[:4], *each.judge(results)) for each in CLAIMS]
