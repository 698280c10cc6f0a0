"""Random sequences of find, decide, learn, undo, apply and find --review beside a plain model: one set of numbers."""

import io
import json
import re
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from jnpl import Findings
from jnpl.cli import summary
from jnpl.cli.apply import apply as cli_apply
from jnpl.data.sources.arrays import from_arrays
from jnpl.data.split import part
from jnpl.judging.audit import UNSURE_LABEL, WRONG_LABEL
from jnpl.judging.noise_model import NoiseEstimate
from jnpl.outputs.audit_session import AuditSession
from jnpl.outputs.report import page
from jnpl.outputs.review.decisions import ACTIONS, NewDecision
from jnpl.outputs.review.ranking import Filter, Ranking
from jnpl.outputs.review.retraining import ranked_anew
from jnpl.outputs.review.review_session import ReviewSession
from jnpl.outputs.review.reviewed_labels import given_decisions, last_ranking, reviewed_run, with_review
from jnpl.outputs.review.samples import Samples
from jnpl.run_folder import RunFolder

SAMPLES, NAMES = 60, ["ant", "bee", "cow"]


def judged(source, random):
    """Findings as a training on this source could give them."""
    probs = random.dirichlet([0.4] * 3, len(source))
    threshold = random.uniform(0.2, 0.5)
    found = Findings.from_probs(
        probs, source.labels, class_names=source.class_names, ids=source.ids, threshold=threshold
    )
    decided = np.full(len(source), -1) if source.decided is None else source.decided
    rate = float((1 - found.label_quality[decided < 0]).mean())
    ends = rate * random.uniform(0.6, 1), min(rate * random.uniform(1, 1.5), 1.0)
    hidden = np.where(decided < 0, found.label_quality, np.nan)  # as the calibration leaves them
    found = replace(found, label_quality=hidden, noise=NoiseEstimate(rate, *ends, overlap=0.02))
    return found.with_decisions(decided)


def apply(run, out):
    """What `jnpl apply --json` prints."""
    with redirect_stdout(io.StringIO()) as printed:
        cli_apply(run, out=out, overwrite=True, as_json=True)
    return printed.getvalue()


@dataclass
class Model:
    """What a person would keep in a notebook: by id, label quality and the decisions of this and earlier reviews."""

    given: dict[int, int]
    quality: dict[int, float] = field(default_factory=dict)
    threshold: float = 0.0
    before: dict[int, int] = field(default_factory=dict)
    audited: dict[int, int] = field(default_factory=dict)
    here: dict[int, tuple[str, int | None]] = field(default_factory=dict)
    batches: list[dict[int, tuple[str, int | None] | None]] = field(default_factory=list)  # what each one replaced

    def read(self, findings):
        """Write down a ranking: of a run, or one that was learnt, which changes nothing for what is decided."""
        self.quality = dict(zip(findings.ids.tolist(), findings.label_quality.tolist(), strict=True))
        self.threshold = findings.threshold

    @property
    def earlier(self):
        """Decided before this review: in an earlier one, or in an audit, which may take it back."""
        before = {name: label for name, label in self.before.items() if self.audited.get(name) != WRONG_LABEL}
        return before | {name: label for name, label in self.audited.items() if label >= 0}

    @property
    def open_suspects(self):
        undecided = set(self.quality) - set(self.here) - set(self.earlier)
        return {name for name in undecided if self.quality[name] < self.threshold}

    def label(self, name):
        """The label after the decisions; None if the sample is left out."""
        action, label = self.here.get(name, ("", None))
        if action in ("keep", "unsure"):
            return self.given[name]
        return {"relabel": label, "drop": None}.get(action, self.earlier.get(name, self.given[name]))

    @property
    def wrong(self):
        """How many labels are decided to be wrong."""
        sure = {name for name, (action, _) in self.here.items() if action != "unsure"} | set(self.earlier)
        return sum(self.label(name) != self.given[name] for name in sure & set(self.quality))


class Story:
    """The real thing beside the model."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, np.random.default_rng(seed)
        labels = self.random.integers(0, 3, SAMPLES)
        x = self.random.normal(size=(SAMPLES, 2)).astype(np.float32)
        self.whole = from_arrays(x, [NAMES[label] for label in labels], name="insects")
        self.model = Model(dict(enumerate(self.whole.labels.tolist())))
        self.number, self.session = 0, None
        self.find(self.whole, {})

    def find(self, source, reviewed):
        if self.session is not None:
            self.session.close()
        self.number += 1
        self.source = source
        self.run = RunFolder(self.folder / str(self.number))
        self.run.save_findings(judged(source, self.random))
        (self.run.path / "data.json").write_text(json.dumps({"kind": "vector", **reviewed}))
        (self.run.path / "run.json").write_text("{}")
        self.session = ReviewSession(self.run, Samples(self.run, None, "none"))
        self.model.here, self.model.batches, self.model.audited = {}, [], {}
        self.model.read(self.run.findings)

    # Steps

    def decide(self):
        positions = self.random.choice(len(self.source), self.random.integers(1, 6), replace=False).tolist()
        seen = {each.position: each.number for each in self.session._store.read(positions)}
        made, replaced = [], {}
        for position in positions:
            name = int(self.source.ids[position])
            action = str(self.random.choice(ACTIONS, p=[0.3, 0.5, 0.08, 0.12]))
            label = int(self.random.integers(3)) if action == "relabel" else None
            made.append(NewDecision(position, action, label, seen.get(position, 0)))
            replaced[name] = self.model.here.get(name)
            kept = action == "relabel" and label == self.model.given[name]
            self.model.here[name] = ("keep", None) if kept else (action, label)
        self.session.decide(made, reviewer="Ann", tab="t")
        self.model.batches.append(replaced)

    def undo(self):
        self.session.undo("t")
        for name, before in (self.model.batches.pop() if self.model.batches else {}).items():
            if before is None:
                del self.model.here[name]
            else:
                self.model.here[name] = before

    def learn(self):
        codes = reviewed_run(self.run).decisions
        if not (codes != -1).any():
            return
        earlier = -1 if self.source.decided is None else self.source.decided
        decided = np.where(codes >= 0, codes, np.where(codes == -1, earlier, -1))
        learnt = judged(part(replace(self.source, decided=decided), np.flatnonzero(codes != -2)), self.random)
        before = last_ranking(self.session._store, self.run, with_audit=False)[0].findings
        anew = ranked_anew(before, codes, learnt)
        self.session._learnt(Ranking(anew), int((codes != -1).sum()), 0.1)
        untouched = {name: self.model.quality[name] for name in self.model.here}
        self.model.read(self.session._ranking.findings)
        if not self.model.audited:
            assert {name: self.model.quality[name] for name in untouched} == untouched

    def audit(self):
        checks = AuditSession(self.run, int(self.random.integers(3, 12)))
        answers = {
            at: int(self.random.choice([*range(3), WRONG_LABEL, UNSURE_LABEL], p=[0.3, 0.3, 0.2, 0.1, 0.1]))
            for at in self.random.choice(checks.facts().positions, 3, replace=False).tolist()
        }
        checks.answer(answers.items(), "Ann")
        checks.apply()
        self.model.audited |= {int(self.source.ids[at]): label for at, label in answers.items()}
        if all(label == UNSURE_LABEL for label in self.model.audited.values()):
            return
        result = checks.result()
        assert self.run.findings.noise_rate == pytest.approx(result["noise_rate"])
        assert result["checked"] == sum(label != UNSURE_LABEL for label in self.model.audited.values())
        self.session.status()
        self.model.read(self.session._ranking.findings)

    def find_again(self):
        if not self.model.here and not self.model.earlier:
            return
        after = with_review(self.whole, self.run.path)
        gone = {name for name in self.model.given if self.model.label(name) is None}
        assert set(after.ids.tolist()) == set(self.model.given) - gone
        unsure = {name for name, (action, _) in self.model.here.items() if action == "unsure"}
        decided = (set(self.model.here) | set(self.model.earlier)) - unsure - gone
        self.model.before = {name: self.model.label(name) for name in decided}
        self.model.given = {name: label for name, label in self.model.given.items() if name not in gone}
        labels = {int(name): int(label) for name, label in zip(after.ids, after.decided, strict=True) if label >= 0}
        assert labels == self.model.before  # rounds accumulate
        self.find(after, given_decisions(self.whole, after))

    # What everybody says

    def check_counts(self):
        model, counts = self.model, self.session.counts()
        told = summary.facts(self.run, 10**6)
        assert {suspect["id"] for suspect in told["suspects"]} == model.open_suspects
        assert told["issues"] == counts["suspects"] == len(model.open_suspects)
        assert sum(pair["count"] for pair in told["confused"]) <= told["issues"]
        decided_before = set(model.earlier) - set(model.here)
        assert (counts["decided"], counts["decided_before"]) == (len(model.here), len(decided_before))
        assert told.get("decided", 0) == len(model.here) + len(decided_before)
        listed = self.session.page(Filter(decided="no"), 0, 200)
        assert {item["position"] for item in listed["items"]} == {
            at for at, name in enumerate(self.source.ids.tolist()) if name in model.open_suspects
        }
        findings, left = reviewed_run(self.run).findings, self.session.status()["estimate"]["left"]
        assert findings.wrong_left._asdict() == pytest.approx(left)
        assert findings.noise_rate * len(self.source) == pytest.approx(model.wrong + left["value"])
        assert findings.expected_wrong <= min(left["value"], told["issues"]) + 1e-9

    def check_report(self):
        shown = re.sub(r"\s+", " ", page.render(self.run))
        count, decided = len(self.model.open_suspects), len({*self.model.here, *self.model.earlier})
        assert f"<em>{count}</em> of" in shown or (count == 0 and "None of" in shown)
        assert (f"<dt>Decided</dt><dd>{decided}</dd>" in shown) == (decided > 0)

    def check_apply(self):
        told, model = json.loads(apply(self.run.path, self.folder / "out.csv")), self.model
        table = pd.read_csv(self.folder / "out.csv").set_index("id")["label"].to_dict()
        expected = {name: NAMES[model.label(name)] for name in model.given if model.label(name) is not None}
        assert set(table) == set(expected)
        differ = {name for name in table if table[name] != expected[name]}
        assert not differ if model.here else differ <= model.open_suspects
        assert told["uncertain"] == len(model.open_suspects - differ)
        assert told["changed"] == sum(table[name] != NAMES[model.given[name]] for name in table)
        left = self.session.status()["estimate"]["left"]
        if "expected_wrong" in told:
            assert told["expected_wrong"]["before"] == pytest.approx(model.wrong + left["value"], abs=0.1)
            after = told["expected_wrong"]["after"]
            assert after == pytest.approx(left["value"], abs=0.1) if not differ else after < left["value"] + 0.1


@pytest.mark.parametrize(("seeds", "steps"), [(range(3), 40), pytest.param(range(3, 103), 100, marks=pytest.mark.slow)])
def test_page_summary_report_and_apply_agree_with_a_plain_model(tmp_path, seeds, steps):
    kinds, chances = ["decide", "undo", "learn", "audit", "find_again"], [0.57, 0.22, 0.1, 0.06, 0.05]
    for seed in seeds:
        story = Story(tmp_path / str(seed), seed)
        for number in range(steps):
            getattr(story, story.random.choice(kinds, p=chances))()
            story.check_counts()
            if number % 5 == 0:
                story.check_report()
                story.check_apply()
        story.session.close()
