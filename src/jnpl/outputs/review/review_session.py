"""One review in progress: the ranking, the decisions and the samples, and the answers to all requests of the page."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from jnpl.internal.errors import InputError
from jnpl.internal.tables import table_writer
from jnpl.judging.caveats import noise_sentence
from jnpl.judging.tag_sets import TagSetFindings
from jnpl.outputs.export import label_studio
from jnpl.outputs.report.text import plain
from jnpl.outputs.review.decisions import ACTIONS, NewDecision, as_rows, open_store
from jnpl.outputs.review.ranking import Filter, Ranking, mask_of, ranking_of
from jnpl.outputs.review.retraining import Retraining
from jnpl.outputs.review.reviewed_labels import last_ranking, resolve, review_of
from jnpl.outputs.review.samples import Beside, RecentCache

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from jnpl.outputs.review.decisions import Decision
    from jnpl.outputs.review.ranking import Positions
    from jnpl.outputs.review.samples import Samples
    from jnpl.run_folder import RunFolder

MAX_PAIRS = 200
_MAX_GROUPS = 1000  # to choose from
_EXAMPLES = 4  # samples of each class to compare with
_DOUBTS = 12  # most doubtful tags that are shown of a sample
NO_TAG = "-"  # the empty set of tags
_CARD_CELLS, _EXAMPLE_CELLS = 6, 8  # of a row in the grid, and of an example
_LEAST = 0.001  # probability of a further candidate
_NAME_LIMIT = 300  # characters of an id
FORMATS = {"csv": ".csv", "parquet": ".parquet", "label-studio": ".json"}


class ReviewSession:
    """The state behind the page. Its methods may be called from any thread."""

    def __init__(self, run: RunFolder, samples: Samples) -> None:
        findings, facts = run.sample_findings, run.run_facts
        self.findings, self.samples, self._run = findings, samples, run
        self._sets = findings.sets if isinstance(findings, TagSetFindings) else None
        self.tag_names = None if self._sets is None else [plain(name, _NAME_LIMIT) for name in self._sets.tag_names]
        self.names = [] if self._sets is not None else [plain(name, _NAME_LIMIT) for name in findings.names]
        self._given = findings.given_labels
        self.groups = [(column, *pair) for column, of in (findings.groups or {}).items() for pair in _counted(of)]
        self.groups = self.groups[:_MAX_GROUPS]
        self._store = open_store(run)
        self._lock = threading.RLock()
        self._lists, self._estimates, self._searches = RecentCache(8), RecentCache(2), RecentCache(4)
        self._ranking = ranking_of(findings)
        self._learnt_from = 0  # decisions of the last round
        self._version: tuple[int, int, int] | None = None
        self._actions = np.full(len(self._given), -1, np.int8)  # index into ACTIONS, -1: undecided
        self._retraining = Retraining(samples, facts.recipe, facts.seed or 0)
        self.status()  # computed now, so that the first page is there at once
        self._listed(Filter())

    def close(self) -> None:
        """Stop a training, and close the decisions."""
        self._retraining.stop()
        self._store.close()

    def noise_sentence(self) -> str | None:
        """Return what is known of the noise rate, if that is other than the estimate of the run."""
        if isinstance(self.findings, TagSetFindings):
            return self.findings.tags.noise_sentence
        noise = self.findings.noise
        if noise is None or not (noise.checked or noise.caveat):
            return None
        sentence = noise_sentence(noise, str(self._run.path))
        return f"{sentence[0].upper()}{sentence[1:]}."

    @property
    def ranking(self) -> Ranking:
        """The ranking that counts now."""
        self._sync()
        return self._ranking

    # State

    def _sync(self) -> None:
        """Read what this or another process has decided or learnt since."""
        with self._lock:
            version, audited = self._store.version(), self._run.sample_findings is not self.findings
            if version == self._version and not audited:
                return
            current = self._store.current()
            actions = np.full_like(self._actions, -1)
            actions[current.positions] = current.actions
            self._actions = actions
            if version[2] != self._ranking.number or audited:
                self.findings = self._run.sample_findings
                self._ranking, self._learnt_from = last_ranking(self._store, self._run)
                self._lists, self._estimates = RecentCache(8), RecentCache(2)
            self._version = version

    def _check(self, position: int) -> int:
        if not 0 <= position < len(self._given):
            raise InputError(f"there are samples 0 to {len(self._given) - 1}, got {position}")
        return position

    # Lists

    def _listed(self, wanted: Filter) -> Positions:
        """Return the positions that a filter selects, whether decided or not, in their order."""
        ranking = self._ranking
        selected = {name: getattr(wanted, name) for name in Filter.model_fields if name != "decided"}
        key = (*selected.values(), ranking.number, self.samples.state)
        return self._lists.get_or_make(key, lambda: self._select(wanted, ranking))

    def _select(self, wanted: Filter, ranking: Ranking) -> Positions:
        matching = None
        if wanted.search:
            key = (wanted.search, self.samples.state)
            matching = self._searches.get_or_make(key, lambda: self.samples.matching(wanted.search))
        if wanted.group is not None:
            if wanted.group >= len(self.groups):
                raise InputError(f"this run has {len(self.groups)} groups, got number {wanted.group}")
            column, name, _ = self.groups[wanted.group]
            of_samples = (self.findings.groups or {})[column]
            members = np.array([group is not None and str(group) == name for group in of_samples])
            matching = members if matching is None else matching & members
        groups = self.samples.duplicate_groups
        special = self.samples.outliers if wanted.list == "outliers" else None
        if wanted.list == "duplicates" and groups is not None:
            special = groups >= 0
        mask = mask_of(wanted, ranking, self._given, special, matching)
        order = ranking.order[mask[ranking.order]]
        if wanted.list == "duplicates" and groups is not None:
            order = order[np.argsort(groups[order], kind="stable")]
        return order

    def _places(self, listed: Positions, decided: str) -> Positions:
        """Return the places (P,) of a list whose samples are decided as a filter says."""
        actions = self._actions[listed]
        if decided == "any":
            return np.arange(len(listed))
        return np.flatnonzero(
            (actions >= 0) == (decided == "yes") if decided in ("yes", "no") else actions == ACTIONS.index(decided)
        )

    def page(self, wanted: Filter, offset: int, limit: int) -> dict[str, Any]:
        """Return a page of samples in the order of the list."""
        self._sync()
        listed = self._listed(wanted)
        listed = listed[self._places(listed, wanted.decided)]
        offset = min(offset, max(len(listed) - 1, 0))
        return {
            "total": len(listed),
            "offset": offset,
            "items": self._items(listed[offset : offset + limit]),
            "round": self._ranking.number,
        }

    def sample(self, wanted: Filter, position: int | None = None, index: int | None = None) -> dict[str, Any]:
        """Return a sample with its neighbours in the list: by its position, by its place in the list from 0, or the
        first undecided one, else the first."""
        self._sync()
        listed = self._listed(wanted)
        places = self._places(listed, wanted.decided)
        undecided = places[self._actions[listed[places]] < 0]
        if position is None:
            if not len(places):
                return {"item": None, "total": 0, "round": self._ranking.number}
            if index is None:
                place = (undecided if len(undecided) else places)[0]
            else:
                place = places[min(max(index, 0), len(places) - 1)]
            position = int(listed[place])
        item = self._item(self._check(position))
        at = np.flatnonzero(listed == position)
        place = int(at[0]) if len(at) else -1
        undecided = undecided[undecided != place]

        def first_of(candidates: Positions) -> int | None:
            return int(listed[candidates[0]]) if len(candidates) else None

        return {
            "item": item,
            "index": int(np.searchsorted(places, place)) if place in places else None,
            "total": len(places),
            "next": first_of(places[places > place]),
            "previous": first_of(places[places < place][::-1]),
            "next_open": first_of(np.append(undecided[undecided > place], undecided)),
            "first_open": first_of(undecided),
            "round": self._ranking.number,
        }

    def _items(self, positions: Positions) -> list[dict[str, Any]]:
        decisions = {decision.position: decision for decision in self._store.read(positions.tolist())}
        return [self._brief(int(at), decisions.get(int(at))) for at in positions]

    def _suggested(self, position: int) -> tuple[int, float, bool]:
        """Return the suggested label, or the likeliest other one if it is unclear; its confidence; whether it is."""
        ranking = self._ranking
        suggested, confidence = int(ranking.suggested[position]), float(ranking.confidence[position])
        other, other_confidence = (values[position] for values in ranking.findings.others)
        if ranking.is_suspect[position] and suggested == self._given[position] and other >= 0:
            return int(other), float(other_confidence), True
        return suggested, confidence, False

    def _beside(self, position: int) -> Beside | None:
        """Return the classes between which the columns of a sample are compared; None for tags."""
        if self._sets is not None:
            return None
        return Beside(position, int(self._given[position]), self._suggested(position)[0])

    def _brief(self, position: int, decision: Decision | None) -> dict[str, Any]:
        ranking = self._ranking
        suggested, confidence, is_unclear = self._suggested(position)
        content = self.samples.content(position, 400, self._beside(position))
        return {
            "position": position,
            "id": plain(self.findings.ids[position], _NAME_LIMIT),
            "given": self._shown_label(int(self._given[position])),
            "suggested": self._shown_label(suggested),
            "unclear": is_unclear,
            "quality": _number(ranking.quality[position]),
            "confidence": _number(confidence),
            "suspect": bool(ranking.is_suspect[position]),
            "content": _brief(content, _CARD_CELLS),
            "decision": None if decision is None else self.shown_decision(decision),
            **({} if self._sets is None else {"doubts": self._doubts(position)}),
        }

    def _item(self, position: int) -> dict[str, Any]:
        """Return all that the page shows of one sample."""
        brief = self._brief(position, next(iter(self._store.read([position])), None))
        content, others = self.samples.content(position, beside=self._beside(position)), []
        if self._sets is None:
            candidates = self.samples.candidates(position, self._ranking, 4)
            others = _others(candidates, brief["given"], brief["suggested"], brief["quality"], brief["confidence"])
        return brief | {"content": content, "others": others}

    # Labels: a number, or the tag numbers of a set as a text such as "0,3", which is the same in every process

    def _shown_label(self, label: int) -> int | str:
        return label if self._sets is None else ",".join(map(str, self._sets.sets[label])) or NO_TAG

    def shown_decision(self, decision: Decision) -> dict[str, Any]:
        """Return a decision as the page has it."""
        return decision._asdict() | ({} if decision.label is None else {"label": self._shown_label(decision.label)})

    def label_of(self, shown: int | str | None) -> int | None:
        """Return the label that the page sends; one of the wrong kind is an InputError."""
        if shown is None or (self._sets is None and isinstance(shown, int)):
            return None if shown is None else int(shown)
        if self._sets is None or isinstance(shown, int):
            raise InputError(f"a label is {'a class number' if self._sets is None else 'a set of tags'}, got {shown!r}")
        return self._sets.number([] if shown == NO_TAG else map(int, shown.split(",")))

    def _doubts(self, position: int) -> list[tuple[int, float, bool]]:
        """Return tag, quality and suspicion of the most doubtful tags of a sample, worst first."""
        tags: Any = getattr(self.findings, "tags", None)
        quality = tags.quality[position]
        worst = np.argsort(quality, kind="stable")[:_DOUBTS]
        worst = worst[~np.isnan(quality[worst])]
        return [(int(tag), float(quality[tag]), bool(tags.is_issue[position, tag])) for tag in worst]

    def blind(self, position: int) -> dict[str, Any]:
        """Return what an audit shows of a sample: nothing that the run thinks of it."""
        given, name = int(self._given[position]), plain(self.findings.ids[position], _NAME_LIMIT)
        return {"position": position, "id": name, "given": given, "content": self.samples.content(position)}

    def examples(self, position: int) -> dict[str, Any]:
        """Return samples that are surely of the given and of the suggested class, the most similar ones."""
        self._sync()
        self._check(position)
        self.samples.wait()
        ranking = self._ranking
        beside = self._beside(position)
        decided = self._decided_labels()
        if self._sets is None:
            labels = list(dict.fromkeys([int(self._given[position]), self._suggested(position)[0]]))
            names, has = self.names, dict.fromkeys(labels, decided)
        else:
            labels, names = self._compared_tags(position), self.tag_names or []
            has = {tag: self._decided_tag(decided, tag) for tag in labels}
        return {
            "similar": self.samples.has_vectors,
            "classes": [
                {
                    "label": label,
                    "name": names[label],
                    "items": [
                        {"position": at, "content": _brief(self.samples.content(at, 200, beside), _EXAMPLE_CELLS)}
                        for at in self.samples.examples(position, label, ranking, _EXAMPLES, has[label])
                    ],
                }
                for label in labels
            ],
        }

    def _compared_tags(self, position: int) -> list[int]:
        """Return the two tags to compare a sample with: the most doubtful of its suspects, else of its given tags."""
        findings: Any = self.findings
        return list(dict.fromkeys([*findings.issues_of(position), *findings.sets.sets[self._given[position]]]))[:2]

    def _decided_tag(self, decided: Positions, tag: int) -> Positions:
        """Return (N,) decided labels for one tag: the tag where it was decided to be there, -1 where undecided."""
        assert self._sets is not None  # noqa: S101 - for mypy
        has_tag = np.array([tag in tags for tags in self._sets.sets], bool)
        return np.where(decided < 0, decided, np.where(has_tag[np.maximum(decided, 0)], tag, -9))

    def similar(self, position: int, limit: int) -> dict[str, Any]:
        """Return the undecided suspects that are most similar to a sample, itself first."""
        self._sync()
        self._check(position)
        self.samples.wait()
        if not self.samples.has_vectors:
            return {"items": [], "reason": self.samples.problem or "the samples have no vectors to compare"}
        among = np.flatnonzero(self._ranking.is_suspect & (self._actions < 0))
        nearest = self.samples.nearest(position, among, limit - 1)
        return {"items": self._items(np.array([position, *nearest]))}

    def pairs(self) -> list[dict[str, Any]]:
        """Return the most frequent pairs (given -> suggested) of suspects."""
        self._sync()
        return self._ranking.pairs(self._actions < 0, MAX_PAIRS)

    # Decisions

    def decide(self, wanted: Sequence[NewDecision], *, reviewer: str, tab: str) -> dict[str, Any]:
        """Write decisions as one batch; quality and suspicion of the labels are noted with them."""
        if len({decision.position for decision in wanted}) != len(wanted):
            raise InputError("a sample is decided twice in one batch")
        new = []
        for position, action, label, seen, *_ in wanted:
            self._check(position)
            if action == "relabel":
                classes = len(self.names) if self._sets is None else len(self._sets.sets)
                if label is None or not 0 <= label < classes:
                    raise InputError(f"a new label is a class number, 0 to {classes - 1}, got {label}")
                if label == self._given[position]:
                    action, label = "keep", None  # noqa: PLW2901
            elif label is not None:
                raise InputError(f"the decision {action!r} has no label, got {label}")
            quality = _number(self._ranking.quality[position])
            new.append(NewDecision(position, action, label, seen, quality, bool(self._ranking.is_suspect[position])))
        numbers = self._store.decide(new, reviewer=reviewer, tab=tab)
        self._sync()
        made = [self.shown_decision(decision) for decision in self._store.read(list(numbers))]
        return {"decisions": made, "counts": self.counts()}

    def undo(self, tab: str) -> dict[str, Any]:
        """Take back the last batch of a tab; returns the positions that changed."""
        positions = self._store.undo(tab)
        self._sync()
        return {"positions": positions, "counts": self.counts()}

    def _decided_labels(self) -> Positions:
        """Return (N,) decided labels: -1 where undecided, less where dropped or unsure."""
        return resolve(self._store.current(), self._given)

    def counts(self) -> dict[str, Any]:
        """Return how many samples are decided, in this review and before it, and how; and the suspects left."""
        is_here = self._actions >= 0
        by_action = np.bincount(self._actions[is_here], minlength=len(ACTIONS)).tolist()
        total = int(is_here.sum())
        return {
            "suspects": int((self._ranking.is_suspect & ~is_here).sum()),
            "decided": total,
            "decided_before": int((self.findings.is_decided & ~is_here).sum()),
            "actions": dict(zip(ACTIONS, by_action, strict=True)),
            "since_learning": total - self._learnt_from,
        }

    def status(self) -> dict[str, Any]:
        """Return counts, estimates, the state of data and training, and the version of the decisions."""
        self._sync()
        ranking = self._ranking
        key = (self._version, ranking.number)
        estimate = self._estimates.get_or_make(key, self._estimate)
        return {
            "version": list(self._version or ()),
            "round": ranking.number,
            "counts": self.counts(),
            "estimate": estimate,
            "data": {"state": self.samples.state, "problem": self.samples.problem},
            "learning": self._retraining.state,
        }

    def _estimate(self) -> dict[str, Any]:
        reviewed = review_of(self._ranking, self._store.current())
        return {
            "precision": None if reviewed.precision is None else reviewed.precision._asdict(),
            "left": None if reviewed.findings.is_withheld else reviewed.left._asdict(),
        }

    # Learning

    def learn(self) -> dict[str, Any]:
        """Start to train the head with the decisions as trusted labels, unless it is trained already."""
        if self._sets is not None:
            raise InputError("Learn is for one label per sample: samples with several tags keep their ranking")
        self._sync()
        decided = int((self._actions >= 0).sum())
        if not decided:
            raise InputError("there is nothing to learn from yet: decide about some samples first")
        current, before = self._store.current(), last_ranking(self._store, self._run, with_audit=False)[0]
        self._retraining.start(before, current, lambda ranking, seconds: self._learnt(ranking, decided, seconds))
        return self._retraining.state

    def _learnt(self, ranking: Ranking, decided: int, seconds: float) -> None:
        with self._lock:
            self._store.add_round(decided, seconds, ranking.to_bytes())
            self._sync()

    # Files

    def export(self, kind: str) -> bytes:
        """Return the decisions as the content of a .csv or .parquet, or tasks for Label Studio."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        rows = as_rows(self._store, self.findings)
        if kind == "label-studio":
            if self._sets is not None:
                raise InputError("tasks for Label Studio are for one label per sample: take csv or parquet")
            return json.dumps(self._tasks(rows), ensure_ascii=False, indent=1).encode()
        kinds = dict.fromkeys(("id", "given_label", "action", "label", "reviewer", "decided_at"), "string")
        if self.findings.ids.dtype != object:
            kinds["id"] = "int64"
        frame = pd.DataFrame(rows, columns=[*kinds], dtype=object).astype(kinds)
        with TemporaryDirectory() as folder:
            file = Path(folder) / f"decisions{FORMATS[kind]}"
            with table_writer(file) as write:
                write(frame)
            return file.read_bytes()

    def _tasks(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the decided samples as tasks of Label Studio, with the decisions as annotations."""
        positions = np.array([decision.position for decision in self._store.all_current()], np.int64)
        tasks = {
            task["data"]["id"]: task
            for task in label_studio.tasks(self.findings.part(positions), label_studio.LOCAL_FILES)
        }
        for row in rows:
            task = tasks.get(str(row["id"]))
            if task is None or row["action"] == "unsure":
                continue
            result = [] if row["label"] is None else [label_studio.choice(self.findings, "decision", row["label"])]
            made = {"created_at": row["decided_at"], "created_username": row["reviewer"]}
            task["annotations"] = [{"result": result, "was_cancelled": row["action"] == "drop", **made}]
        return list(tasks.values())


def _counted(groups: npt.NDArray[Any]) -> list[tuple[str, int]]:
    """Return the groups of samples (N,), in order, and how many samples each has."""
    names, counts = np.unique([str(group) for group in groups if group is not None], return_counts=True)
    return list(zip(names.tolist(), counts.tolist(), strict=True))


def _brief(content: dict[str, Any], most: int) -> dict[str, Any]:
    """Return the content of a sample with the first cells of a row."""
    return {"kind": "row", "cells": content["cells"][:most]} if content["kind"] == "row" else content


def _others(
    candidates: list[tuple[int, float]], given: int, suggested: int, quality: float | None, confidence: float | None
) -> list[dict[str, Any]]:
    """Return the next two candidates; their probabilities share what quality and confidence leave.

    Quality and confidence may be calibrated, the network's probabilities are not: side by side they would not add up.

    >>> _others([(1, 0.6), (0, 0.2), (2, 0.2)], given=0, suggested=1, quality=0.1, confidence=0.8)
    [{'label': 2, 'p': 0.1}]
    """
    shown = {given: quality or 0.0, suggested: (confidence if suggested != given else quality) or 0.0}
    left, rest = max(1 - sum(shown.values()), 0.0), 1 - sum(p for label, p in candidates if label in shown)
    scale = left / rest if rest > 0 else 0.0
    most = shown[suggested] if suggested != given else 1.0  # the suggested class is the likeliest of the others
    others = [(label, min(p * scale, most)) for label, p in candidates if label not in shown][:2]
    return [{"label": label, "p": round(p, 9)} for label, p in others if p >= _LEAST]


def _number(value: Any) -> float | None:
    """Return a float for JSON, which has no nan."""
    return None if np.isnan(value) else float(value)
