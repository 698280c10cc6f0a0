"""`jnpl review` measured: a reviewer who knows the truth, a million findings, and kills.

    python benchmarks/review.py reviewer --data DIR [--seeds 3]   # wrong labels left after 100, 200, 300 decisions
    python benchmarks/review.py learning --data DIR [--seeds 3]   # wrong labels found per 100 decisions, with Learn
    python benchmarks/review.py copying --data DIR                # seconds from the last decision to the copy
    python benchmarks/review.py scale                             # 1,000,000 findings: times and memory
    python benchmarks/review.py kills [--times 20]                # SIGKILL in the middle of rapid decisions
    python benchmarks/review.py soak --data DIR [--minutes 30]    # five reviewers at once, Learn every 100 decisions
    python benchmarks/review.py page                              # the tables of docs/results/review.md

`reviewer` runs `jnpl find` on flowers.tar of DIR with 20 % wrong labels, opens `jnpl review` in Chromium, and decides
in the grid, 24 a page: with and without a press of Learn after every second page. Beside it, the same number of
decisions in the order of cleanlab: five-fold logistic regression on the same embeddings, ranked by self-confidence or
normalised margin, whichever is better.

`soak` decides about the same photographs over HTTP, one decision in two seconds and reviewer: each fetches a page of
the grid and a photograph, decides about one of them, takes every twentieth decision back, and now and then exports.
When all are decided they change their minds. In the end the file must hold every acknowledged decision once, and no
other.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from jnpl import Findings, noise
from jnpl.cli.review import data_opener
from jnpl.data.source import Source
from jnpl.experiments import results
from jnpl.experiments.result_tables import markdown_table, spread
from jnpl.internal.files import write_text
from jnpl.internal.importing import require
from jnpl.outputs.review.decisions import NewDecision
from jnpl.outputs.review.review_session import ReviewSession
from jnpl.outputs.review.samples import Samples
from jnpl.outputs.run_source import open_run_data
from jnpl.run_folder import RunFolder

RESULTS = Path(__file__).parent / "results"
FILE = "review.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "results" / "review.md"
TOKEN = "a-token-for-the-benchmark"  # noqa: S105 - of a server that lives for seconds
MARKS = (100, 200, 300)
LEARN_EVERY = 2  # pages
RATE = 0.2
READY = "html[data-ready]:not([data-busy])"


class Client:
    """Requests to a server of a review, each over a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        connection.request("GET", f"/?token={TOKEN}")
        self._cookie = str(connection.getresponse().getheader("set-cookie")).split(";")[0]
        connection.close()

    def json(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return an answer; `body` makes it a POST."""
        return json.loads(self.bytes(path, body))

    def bytes(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        """Return an answer as it is."""
        headers = {"Cookie": self._cookie}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{self.port}"}
        content = None if body is None else json.dumps(body)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("GET" if body is None else "POST", path, content, headers)
        answer = connection.getresponse()
        found = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {found[:200]!r}")
        return found


@contextmanager
def served(run: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Serve a run folder with `jnpl review` in a process of its own."""
    command = [sys.executable, "-m", "jnpl", "review", str(run), "--no-open", "--port", "0", "--token", TOKEN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            line = "" if process.stdout is None else process.stdout.readline()
            found = re.search(r":(\d+)/", line)
            if found is None:
                raise RuntimeError(f"no server: {line}{process.stderr.read() if process.stderr else ''}")
            yield process, int(found[1])
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)


# The reviewer


def reviewer(args: argparse.Namespace) -> None:
    """Let a reviewer who knows the truth decide, with and without learning, and in the order of cleanlab."""
    with TemporaryDirectory() as place, tarfile.open(args.data / "flowers.tar") as archive:
        root = Path(place)
        archive.extractall(root, filter="data")
        files = sorted((root / "flowers").glob("*/*"))
        classes = sorted({file.parent.name for file in files})
        true = np.array([classes.index(file.parent.name) for file in files])
        for seed in range(args.seeds):
            if f"reviewer/{seed}" in results.read(args.out / FILE):
                continue  # done before
            given = noise.symmetric(true, RATE, len(classes), seed=seed)
            table = root / f"flowers-{seed}.csv"
            columns = {"file": [str(file.relative_to(root)) for file in files], "label": [classes[at] for at in given]}
            pd.DataFrame(columns).to_csv(table, index=False)
            run = root / f"run-{seed}"
            command = [sys.executable, "-m", "jnpl", "find", str(table), "-o", str(run), "--image-column", "file"]
            subprocess.run([*command, "--seed", str(seed), "--json"], check=True, capture_output=True)
            found: dict[str, Any] = {"wrong": int((true != given).sum()), "samples": len(true)}
            for name, learns in (("plain", False), ("learn", True)):
                copy = Path(shutil.copytree(run, root / f"run-{seed}-{name}"))
                found[name] = _review(copy, true, given, classes, learns=learns)
                print(seed, name, json.dumps(found[name]), flush=True)
            found["cleanlab"] = _cleanlab(run, true, given, seed)
            print(seed, "cleanlab", json.dumps(found["cleanlab"]), flush=True)
            results.add(args.out / FILE, {"name": f"reviewer/{seed}", "results": found})


def _review(run: Path, true: Any, given: Any, classes: list[str], *, learns: bool) -> dict[str, Any]:
    """Decide 300 suspects in the page itself; returns the wrong labels left, the estimates and the times."""
    playwright = require("playwright.sync_api", "dev")
    labels, decided = given.copy(), 0
    left: dict[str, int] = {}
    estimates: dict[str, Any] = {}
    seconds: list[float] = []
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with served(run) as (_, port), playwright.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.set_default_timeout(300_000)
        page.goto(f"http://127.0.0.1:{port}/?token={TOKEN}")
        page.wait_for_selector(READY, state="attached")
        client = Client(port)
        while client.json("/api/status")["data"]["state"] == "opening":
            time.sleep(0.2)
        page.keyboard.press("g")
        page.wait_for_selector("#cards .pick")
        pages = 0
        while decided < MARKS[-1]:
            page.wait_for_selector(READY, state="attached")
            positions = [
                int(each) for each in page.eval_on_selector_all(".pick", "(all) => all.map((e) => e.dataset.position)")
            ]
            if not positions:  # all suspects are decided: the others come next
                page.locator("#f-list").select_option("all")
                page.wait_for_selector("#cards .pick")
                continue
            for position in positions:
                _choose(page, position, None if true[position] == given[position] else classes[true[position]])
                labels[position] = true[position]
                decided += 1
                if decided in MARKS:
                    left[str(decided)] = int((labels != true).sum())
            page.locator("#save").click()
            page.wait_for_selector(READY, state="attached")
            pages += 1
            status = client.json("/api/status")
            if status["counts"]["decided"] != decided:
                raise RuntimeError(f"{status['counts']['decided']} of {decided} decisions are stored")
            estimates[str(decided)] = {**status["estimate"]["left"], "true": int((labels != true).sum())}
            if learns and pages % LEARN_EVERY == 0 and decided < MARKS[-1]:
                seconds.append(_learn(page, client, status["round"]))
        browser.close()
    return {"left": left, "estimates": estimates, "learning_seconds": [round(each, 2) for each in seconds]}


def _choose(page: Any, position: int, label: str | None) -> None:
    """Set a card of the grid to another label, or to the given one."""
    page.locator(f".pick[data-position='{position}']").focus()
    page.keyboard.press("k" if label is None else "c")
    if label is not None:
        page.keyboard.type(label)
        page.keyboard.press("Enter")


def _learn(page: Any, client: Client, before: int) -> float:
    """Press Learn, wait for the new ranking and load it; returns the seconds that it took."""
    began = time.perf_counter()
    page.locator("#learn").click()
    while (now := client.json("/api/status"))["round"] == before:
        if now["learning"]["state"] == "failed":
            raise RuntimeError(now["learning"])
        time.sleep(0.1)
    seconds = time.perf_counter() - began
    page.locator("#view-grid").click()
    page.wait_for_selector(READY, state="attached")
    return seconds


def _cleanlab(run: Path, true: Any, given: Any, seed: int) -> dict[str, Any]:
    """Return the wrong labels left after as many decisions in the order of cleanlab."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415

    source: Source = open_run_data(json.loads((run / "data.json").read_text("utf-8"))["options"])
    values: Any = source.inputs
    x = values.values.mean(axis=1, dtype=np.float32)
    deviation = x.std(0)
    x = (x - x.mean(0)) / np.where(deviation > 1e-6, deviation, 1)
    best: tuple[float, Any] = (-1.0, None)
    for strength in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        probs = np.zeros((len(x), len(source.class_names)))
        for train, held in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, given):
            probs[held] = (
                LogisticRegression(C=strength, max_iter=200).fit(x[train], given[train]).predict_proba(x[held])
            )
        accuracy = float((probs.argmax(1) == given).mean())
        if accuracy < best[0]:
            break
        best = (accuracy, probs)
    rank = require("cleanlab.rank", "bench")
    found: dict[str, Any] = {}
    for method in ("self_confidence", "normalized_margin"):
        order = np.argsort(rank.get_label_quality_scores(given, best[1], method=method), kind="stable")
        wrong = (true != given)[order]
        found[method] = {str(mark): int(wrong[mark:].sum()) for mark in MARKS}
    return {"left": min(found.values(), key=lambda each: each["300"]), **found}


# What Learn is worth, and the way to the corrected copy

KINDS = {
    "flowers, 10 % at random": (0.1, "symmetric"),
    "flowers, 30 % at random": (0.3, "symmetric"),
    "flowers, 30 % in pairs of classes": (0.3, "pair"),
    "reviews by a rule, 28 %": (0.28, "rule"),
}
ORDERS = {
    "order": "as listed",
    "learn": "Learn after every 50",
    "uncertain": "the least certain first, Learn after every 50",
}
BATCH = 50  # decisions


def learning(args: argparse.Namespace) -> None:
    """Count the wrong labels among the first 100, 200 and 300 decisions of a reviewer who knows the truth."""
    for seed in range(args.seeds):
        for title, (rate, kind) in KINDS.items():
            if f"learning/{title}/{seed}" in results.read(args.out / FILE):
                continue
            with TemporaryDirectory() as place:
                run, true = _noisy_run(Path(place), args.data, rate, kind, seed)
                found = {how: _found(Path(shutil.copytree(run, f"{run}-{how}")), true, how) for how in ORDERS}
            print(title, seed, json.dumps(found), flush=True)
            results.add(args.out / FILE, {"name": f"learning/{title}/{seed}", "results": found})


def _noisy_run(place: Path, data: Path, rate: float, kind: str, seed: int) -> tuple[Path, Any]:
    """Run `jnpl find` on labels of one kind; returns the run folder and the true class numbers of its samples."""
    if kind == "rule":
        frame = pd.read_csv(data / "yelp-weak.csv.gz").sample(3000, random_state=seed, ignore_index=True)
        true, more = frame.pop("truth").to_numpy(), ["--label-column", "label"]
    else:
        with tarfile.open(data / "flowers.tar") as archive:
            archive.extractall(place, filter="data")
        files = sorted((place / "flowers").glob("*/*"))
        classes = sorted({file.parent.name for file in files})
        true = np.array([classes.index(file.parent.name) for file in files])
        make = noise.symmetric if kind == "symmetric" else noise.pair_flip
        given = make(true, rate, len(classes), seed=seed)
        names = [str(file.relative_to(place)) for file in files]
        frame, more = pd.DataFrame({"file": names, "label": [classes[at] for at in given]}), ["--image-column", "file"]
    frame.to_csv(place / "data.csv", index=False)
    command = [sys.executable, "-m", "jnpl", "find", str(place / "data.csv"), "-o", str(place / "run"), *more]
    subprocess.run([*command, "--seed", str(seed), "--json"], check=True, capture_output=True)
    return place / "run", true


def _found(folder: Path, true: Any, how: str) -> dict[str, int]:
    """Return how many wrong labels are among the first decisions."""
    run, found, wrong = RunFolder(folder), dict[str, int](), 0
    samples = Samples(run, *data_opener(run, None, trust_code=False))
    samples.start()
    if samples.wait(600) is None:
        raise RuntimeError(samples.problem)
    session, given = ReviewSession(run, samples), run.findings.given_labels
    undecided = np.ones(len(true), bool)
    while (done := int((~undecided).sum())) < MARKS[-1]:
        findings = session.ranking.findings
        key = np.abs(findings.label_quality - 0.5) if how == "uncertain" else findings.label_quality
        order = np.lexsort((key, ~findings.is_label_issue if how != "uncertain" else np.zeros(len(key))))
        chosen = order[undecided[order]][:BATCH].tolist()
        made = [NewDecision(at, "relabel", int(true[at]), 0) for at in chosen]
        session.decide(made, reviewer="r", tab="t")
        undecided[chosen] = False
        wrong += int((true[chosen] != given[chosen]).sum())
        if done + BATCH in MARKS:
            found[str(done + BATCH)] = wrong
        if how != "order" and done + BATCH < MARKS[-1]:
            session.learn()
            while (state := session.status()["learning"])["state"] == "running":
                time.sleep(0.1)
            if state["state"] == "failed":
                raise RuntimeError(state)
    session.close()
    return found


def copying(args: argparse.Namespace) -> None:
    """Time the way from the last decision about flowers, 20 % of them with a wrong label, to the corrected copy."""
    found: dict[str, list[float]] = {"labels": [], "images": []}
    with TemporaryDirectory() as place, TemporaryDirectory() as outside:  # of the folder of the photographs
        run, true = _noisy_run(Path(place), args.data, 0.2, "symmetric", 0)
        with served(run) as (_, port):
            client = Client(port)
            items = client.json("/api/list?limit=200&decided=no")["items"]
            for number in range(2 * args.seeds):
                at = items[number]["position"]
                made = {"position": at, "action": "relabel", "label": int(true[at]), "seen": 0}
                began = time.perf_counter()
                client.json("/api/decide", {"tab": "t", "reviewer": "r", "decisions": [made]})
                what = ("labels", "images")[number % 2]
                more = ["--copy", f"{outside}/copy{number}"] if what == "images" else []
                command = [sys.executable, "-m", "jnpl", "apply", str(run), "-o", f"{outside}/{number}.csv", *more]
                subprocess.run(command, check=True, capture_output=True, cwd=place)
                found[what].append(round(time.perf_counter() - began, 2))
    results.add(args.out / FILE, {"name": "copying", "results": found | {"samples": len(true)}})
    print(json.dumps(found))


# A million findings


def scale(args: argparse.Namespace) -> None:
    """Time the answers of a review of 1,000,000 findings, and measure the memory of the server."""
    random = np.random.default_rng(0)
    samples, classes = args.samples, 100
    true = random.integers(0, classes, samples)
    wrong = random.random(samples) < 0.1
    given = np.where(wrong, (true + random.integers(1, classes, samples)) % classes, true)
    sure = random.beta(6, 1, samples)
    quality = np.where(wrong, (1 - sure) / 2, sure)
    findings = Findings(
        given_labels=given,
        suggested_labels=np.where(wrong, true, given),
        label_quality=quality,
        suggested_confidence=sure,
        num_classes=classes,
        class_names=tuple(f"class {number}" for number in range(classes)),
        ids=np.array([f"folder {number // 1000}/image {number:07d}.jpg" for number in range(samples)], object),
        paths=None,
        unreadable=None,
        threshold_info={"value": 0.5, "rule": "given", "reason": "given"},
    )
    with TemporaryDirectory() as place:
        run = Path(place) / "run"
        findings.save(run)
        began = time.perf_counter()
        with served(run) as (process, port):
            start = time.perf_counter() - began
            client = Client(port)
            first = [_timed(client, "/api/run"), _timed(client, "/api/list?limit=24")]
            memory = [_memory(process.pid)]
            times: dict[str, list[float]] = {name: [] for name in ("next", "decide", "page", "filter", "search")}
            sample = client.json("/api/sample")
            for number in range(args.steps):
                position = sample["item"]["position"]
                made = {"position": position, "action": "keep", "label": None, "seen": 0}
                body = {"tab": "t", "reviewer": "r", "decisions": [made]}
                times["decide"].append(_timed(client, "/api/decide", body))
                began = time.perf_counter()
                sample = client.json(f"/api/sample?position={sample['next_open']}")
                times["next"].append(time.perf_counter() - began)
                if number % 20 == 0:
                    times["page"].append(_timed(client, f"/api/list?limit=24&offset={int(random.integers(50_000))}"))
                    pair = f"given={number % classes}&suggested={(number + 1) % classes}"
                    times["filter"].append(_timed(client, f"/api/list?limit=24&{pair}"))
                    times["search"].append(_timed(client, f"/api/list?limit=24&search=image%20{number:05d}"))
                    memory.append(_memory(process.pid))
    found = {
        "samples": samples,
        "start_seconds": round(start, 2),
        "first_page_ms": round(1000 * sum(first), 1),
        **{f"{name}_ms": _quantiles(each) for name, each in times.items()},
        "memory_mb": {"first": round(memory[0]), "last": round(memory[-1]), "largest": round(max(memory))},
    }
    results.add(args.out / FILE, {"name": "scale", "results": found})
    print(json.dumps(found, indent=1))


def _timed(client: Client, path: str, body: dict[str, Any] | None = None) -> float:
    began = time.perf_counter()
    client.json(path, body)
    return time.perf_counter() - began


def _quantiles(seconds: list[float]) -> dict[str, float]:
    return {"median": round(1000 * float(np.median(seconds)), 1), "largest": round(1000 * max(seconds), 1)}


def _memory(pid: int) -> float:
    """Resident memory of a process in MB (Linux)."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]


# Kills


def kills(args: argparse.Namespace) -> None:
    """Kill the server in the middle of rapid decisions, again and again; count what was acknowledged and is there."""
    samples = 200_000
    random = np.random.default_rng(0)
    probs = random.dirichlet([1, 1, 1], samples)
    with TemporaryDirectory() as place:
        run = Path(place) / "run"
        Findings.from_probs(probs, random.integers(0, 3, samples)).save(run)
        acknowledged: set[int] = set()
        lost = extra = position = 0
        for number in range(args.times):
            with served(run) as (process, port):
                timer = threading.Timer(0.2 + 0.8 * float(random.random()), process.kill)
                client = Client(port)
                timer.start()
                try:
                    while True:
                        made = {"position": position, "action": "keep", "label": None, "seen": 0}
                        position += 1
                        client.json("/api/decide", {"tab": "t", "reviewer": "r", "decisions": [made]})
                        acknowledged.add(position - 1)
                except (OSError, http.client.HTTPException):
                    pass
                timer.join()
                process.wait()
            connection = sqlite3.connect(run / "review.sqlite")
            stored = {row[0] for row in connection.execute("SELECT position FROM current")}
            intact = connection.execute("PRAGMA integrity_check").fetchone()[0]
            connection.close()
            lost, extra = len(acknowledged - stored), len(stored - acknowledged)
            print(f"kill {number + 1}: {len(acknowledged)} acknowledged, {lost} lost, {intact}", flush=True)
            if lost or intact != "ok":
                raise SystemExit("decisions were lost")
    found = {"kills": args.times, "acknowledged": len(acknowledged), "lost": lost, "stored_unacknowledged": extra}
    results.add(args.out / FILE, {"name": "kills", "results": found})
    print(json.dumps(found))


# Half an hour with five reviewers


def soak(args: argparse.Namespace) -> None:
    """Let reviewers decide for a while; measure memory and open files, and count what is lost or double."""
    with TemporaryDirectory() as place, tarfile.open(args.data / "flowers.tar") as archive:
        archive.extractall(place, filter="data")
        run = Path(place) / "run"
        quick = ("--set", "train.epochs=10")
        command = [sys.executable, "-m", "jnpl", "find", f"{place}/flowers", "-o", str(run), *quick]
        subprocess.run(command, check=True, capture_output=True)
        with served(run) as (process, port):
            crew = [_Crew(port, number) for number in range(args.reviewers)]
            end = time.monotonic() + 60 * args.minutes
            threads = [threading.Thread(target=each.work, args=(end, args.pace)) for each in crew]
            for thread in threads:
                thread.start()
            measured, learnt, client = [], 0, Client(port)
            while any(thread.is_alive() for thread in threads):
                time.sleep(5)
                status = client.json("/api/status")
                if status["learning"]["state"] == "failed":
                    raise RuntimeError(status["learning"])
                if sum(len(each.made) for each in crew) >= 100 * (learnt + 1):
                    client.json("/api/learn", {"tab": "soak"})
                    learnt += 1
                measured.append(_use(process.pid))
            final = client.json("/api/status")
        found = _soaked(run, crew) | {"minutes": args.minutes, "reviewers": args.reviewers, "learnt": learnt}
    found |= {"rounds": final["round"], "every_minute": measured[::12]}
    results.add(args.out / FILE, {"name": "soak", "results": found})
    print(json.dumps(found))
    if found["lost"] or found["double"] or found["errors"]:
        raise SystemExit("decisions were lost or double, or a request failed")


class _Crew:
    """One scripted reviewer: the numbers of decisions that were acknowledged, and those taken back."""

    def __init__(self, port: int, number: int) -> None:
        self._client, self._name = Client(port), f"reviewer {number}"
        self._random = np.random.default_rng(number)
        self.made: dict[int, tuple[int, int]] = {}  # number of the decision -> position, number of the one before
        self.undone: set[int] = set()
        self.conflicts, self.errors = 0, 0

    def work(self, end: float, pace: float) -> None:
        """Decide until the moment `end`, once in `pace` seconds."""
        while time.monotonic() < end:
            began = time.monotonic()
            try:
                self._turn()
            except RuntimeError as error:
                conflict = ": 409 " in str(error)
                self.conflicts, self.errors = self.conflicts + conflict, self.errors + (not conflict)
            except (OSError, http.client.HTTPException):
                self.errors += 1
            time.sleep(max(0.0, pace * self._random.uniform(0.5, 1.5) - (time.monotonic() - began)))

    def _turn(self) -> None:
        client, turn, who = self._client, len(self.made), {"tab": self._name, "reviewer": self._name}
        if turn % 20 == 19 and max(self.made) not in self.undone:
            if client.json("/api/undo", {"tab": self._name})["positions"]:
                self.undone.add(max(self.made))
            return
        if turn % 200 == 150:
            client.bytes("/export/csv")
        items = client.json("/api/list?decided=no&limit=24")["items"]
        items = items or client.json(f"/api/list?list=all&limit=24&offset={self._random.integers(2000)}")["items"]
        item = items[self._random.integers(len(items))]
        position, action = item["position"], str(self._random.choice(["keep", "relabel", "drop", "unsure"]))
        client.bytes(f"/image/{position}?small=true")
        client.json(f"/api/sample?position={position}")
        label = (item["given"] + 1) % 5 if action == "relabel" else None
        seen = (item["decision"] or {"number": 0})["number"]
        decision = {"position": position, "action": action, "label": label, "seen": seen}
        made = client.json("/api/decide", {**who, "decisions": [decision]})["decisions"]
        self.made[made[0]["number"]] = (position, seen)


def _soaked(run: Path, crew: list[_Crew]) -> dict[str, Any]:
    """Compare what was acknowledged with what the file holds."""
    acknowledged = {number: made for each in crew for number, made in each.made.items()}
    undone = set().union(*(each.undone for each in crew))
    with closing(sqlite3.connect(run / "review.sqlite")) as connection:
        rows = connection.execute(
            "SELECT d.number, d.position, coalesce(d.previous, 0), b.undone_at IS NOT NULL FROM decisions d"
            " JOIN batches b ON b.number = d.batch"
        ).fetchall()
        current = dict(connection.execute("SELECT position, decision FROM current"))
    stored = {number: (position, seen) for number, position, seen, _ in rows}
    counting = [(position, number) for number, position, _, is_undone in rows if not is_undone]
    after = [made for number, made in acknowledged.items() if number not in undone]
    return {
        "decisions": len(acknowledged),
        "undone": len(undone),
        "conflicts": sum(each.conflicts for each in crew),
        "errors": sum(each.errors for each in crew),
        "lost": sum(stored.get(number) != made for number, made in acknowledged.items())
        + (dict(sorted(counting)) != current)
        + (undone != {number for number, *_, is_undone in rows if is_undone}),
        "double": len(stored) - len(acknowledged) + len(after) - len(set(after)),
    }


def _use(pid: int) -> dict[str, float]:
    """Memory in MB without pages of files, open files and threads of a process (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory, threads = (int(re.search(rf"{name}:\s+(\d+)", status)[1]) for name in ("RssAnon", "Threads"))  # type: ignore[index]
    return {"mb": round(memory / 1024, 1), "files": len(list(Path(f"/proc/{pid}/fd").iterdir())), "threads": threads}


# The page


def _of_decisions(found: dict[str, Any]) -> dict[str, str]:
    """Return the parts on what Learn is worth, and on the way to the corrected copy."""
    parts: dict[str, str] = {}
    kinds = {title: [found[name] for name in found if name.startswith(f"learning/{title}/")] for title in KINDS}
    if any(kinds.values()):
        rows = [["labels", "seeds", "order", *(f"wrong in {mark}" for mark in MARKS)]]
        for title, each in kinds.items():
            for how, words in ORDERS.items() if each else ():
                shares = (spread([one[how][str(mark)] for one in each], 1) for mark in MARKS)
                rows.append([title, str(len(each)), words, *shares])
        parts["learning"] = markdown_table(rows)
    if "copying" in found:
        each = found["copying"]
        labels, images = (np.median(each[what]) for what in ("labels", "images"))
        parts["copying"] = (
            f"From the last decision to the corrected labels of {each['samples']:,} photographs: {labels:.1f} s, with "
            f"a corrected copy of the photographs {images:.1f} s (medians of {len(each['images'])}, from the press of "
            "the key to the end of `jnpl apply`)."
        )
    return parts


def tables(folder: Path) -> dict[str, str]:
    """Return the generated parts of docs/results/review.md by name."""
    found = {name: line["results"] for name, line in results.read(folder / FILE).items()}
    seeds = [each for name, each in found.items() if name.startswith("reviewer/")]
    parts: dict[str, str] = {}
    if seeds:
        rows = [["order of the suspects", *(f"left after {mark}" for mark in MARKS)]]
        for title, who in (
            ("cleanlab's", "cleanlab"),
            ("`jnpl review`", "plain"),
            ("`jnpl review`, Learn after every second page", "learn"),
        ):
            rows.append([title, *(spread([each[who]["left"][str(mark)] for each in seeds], 1) for mark in MARKS)])
        inside = [
            each["low"] <= each["true"] <= each["high"]
            for seed in seeds
            for who in ("plain", "learn")
            for each in seed[who]["estimates"].values()
        ]
        learning = [second for each in seeds for second in each["learn"]["learning_seconds"]]
        wrong = np.mean([each["wrong"] for each in seeds])
        parts["reviewer"] = (
            f"{seeds[0]['samples']:,} flowers, of which {wrong:.0f} have a wrong label; mean ± standard deviation over "
            f"{len(seeds)} seeds.\n\n{markdown_table(rows)}\n\n"
            f"One press of Learn took {np.median(learning):.1f} s (median). The true number of wrong "
            f"labels lay inside the printed interval on {sum(inside)} of {len(inside)} pages."
        )
    parts |= _of_decisions(found)
    if "scale" in found:
        each = found["scale"]
        rows = [["1,000,000 findings", "median", "largest"]]
        names = {"next": "next suspect", "decide": "save a decision", "page": "a page of the grid"}
        names |= {"filter": "a new filter", "search": "a new search"}
        for name, title in names.items():
            rows.append([title, *(f"{each[f'{name}_ms'][which]:.0f} ms" for which in ("median", "largest"))])
        memory = each["memory_mb"]
        parts["scale"] = (
            f"{markdown_table(rows)}\n\nThe server starts in {each['start_seconds']:.0f} s and answers the first page "
            f"in {each['first_page_ms']:.0f} ms; its memory is {memory['first']} MB at first and {memory['last']} MB "
            "at the end."
        )
    if "kills" in found:
        each = found["kills"]
        parts["kills"] = (
            f"{each['kills']} times SIGKILL in the middle of rapid decisions: {each['acknowledged']:,} were "
            f"acknowledged, {each['lost']} of them lost."
        )
    if "soak" in found:
        each = found["soak"]
        minutes = each["every_minute"]
        early, late = (np.median([minute["mb"] for minute in part]) for part in (minutes[5:15], minutes[-10:]))
        files = [max(minute["files"] for minute in part) for part in (minutes[:15], minutes[15:])]
        parts["soak"] = (
            f"{each['minutes']:.0f} minutes with {each['reviewers']} scripted reviewers at once: {each['decisions']:,} "
            f"decisions and {each['undone']} undone, {each['conflicts']} refused because another reviewer was faster, "
            f"{each['learnt']} times Learn; {each['lost']} lost, {each['double']} double, {each['errors']} requests "
            f"failed. The memory of the server is {early:.0f} MB in minutes 6 to 15 and {late:.0f} MB in the last ten "
            f"minutes; at most {files[0]} files are open in the first half and {files[1]} in the second."
        )
    return parts


def write_page(folder: Path) -> None:
    """Put the generated parts into docs/results/review.md, between their marks."""
    text = PAGE.read_text("utf-8")
    for name, content in tables(folder).items():
        block = re.compile(rf"(<!-- {name}: generated -->\n).*?(<!-- end -->)", re.DOTALL)
        text = block.sub(lambda match, content=content: f"{match[1]}{content}\n{match[2]}", text)  # type: ignore[misc]
    write_text(PAGE, text)


def main() -> int:
    """Run one part of the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("reviewer", "learning", "copying", "scale", "kills", "soak", "page"))
    parser.add_argument("--data", type=Path, help="folder of flowers.tar and yelp-weak.csv.gz")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=200, help="decisions in `scale`")
    parser.add_argument("--times", type=int, default=20, help="kills")
    parser.add_argument("--minutes", type=float, default=30, help="of `soak`")
    parser.add_argument("--reviewers", type=int, default=5)
    parser.add_argument("--pace", type=float, default=2.0, help="seconds between two decisions of a reviewer")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    args = parser.parse_args()
    if args.part in ("reviewer", "soak", "learning", "copying") and args.data is None:
        parser.error("--data DIR is needed")
    if args.part == "page":
        write_page(args.out)
    else:
        parts = {"reviewer": reviewer, "learning": learning, "copying": copying, "scale": scale}
        (parts | {"kills": kills, "soak": soak})[args.part](args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
