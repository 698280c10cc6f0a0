// The page of `jnpl review`. Everything it shows comes from the server as JSON and enters the page as text, never as HTML.
"use strict";
(() => {
  const LEARN_EVERY = 50, PAGE = 24, POLL = 2000, CHOICES = 60, MOST_TOGGLES = 40;
  const root = document.documentElement, at = (id) => document.getElementById(id);
  const { kept, make, content, tab } = window.jnplPage;

  const state = {
    run: null, status: null, view: "one", filter: {}, sample: null, pending: new Map(), page: null, offset: 0,
    similarTo: null, tags: { key: "", on: new Set(), order: [] }, jumpFirst: false, busy: 0, learning: false, seenRound: 0, seenVersion: "", prefetched: null,
  };

  // Small helpers

  // Where samples have several tags, a label is a text such as "0,3": the numbers of its tags, "-" for none.
  const tagsOf = (label) => (label === "-" ? [] : label.split(",").map(Number));
  const labelOf = (tags) => [...tags].sort((a, b) => a - b).join(",") || "-";
  const name = (label) => (state.run.tags === null ? state.run.classes[label] : tagsOf(label).map((tag) => state.run.tags[tag]).join(" + ") || "no tag");
  const bdi = (label, kind) => make("bdi", { class: kind, text: name(label) });
  const whole = (number) => number.toLocaleString("en");
  function percent(share) {
    if (share === null) return "–";
    if (share === 0 || share === 1) return `${100 * share} %`;
    if (share > 0.9995 && share < 1) return ">99.9 %";
    if (share > 0 && share < 0.0005) return "<0.1 %";
    return `${(100 * share).toFixed(share > 0.1 && share < 0.995 ? 0 : 1)} %`;
  }
  const quality = (value) => (value === null ? "unknown" : value > 0 && value < 0.0005 ? "<0.001" : value.toFixed(3));
  function toast(text) {
    at("toast").textContent = text;
    at("toast").classList.add("shown");
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => at("toast").classList.remove("shown"), 6000);
  }
  function notice(text) {
    at("notice").hidden = !text;
    at("notice").textContent = text || "";
  }

  // Requests

  class Refused extends Error {
    constructor(status, body) { super(body.error || `the server answered ${status}`); this.status = status; this.body = body; }
  }
  async function request(path, body) {
    let answer;
    try {
      answer = await fetch(path, body === undefined ? {} : {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
      });
    } catch {
      root.dataset.lost = "yes";
      notice("The server does not answer. Nothing is lost: every decision that was shown as saved is in the run folder. Start jnpl review again.");
      throw new Refused(0, { error: "the server does not answer" });
    }
    if (root.dataset.lost) { delete root.dataset.lost; notice(""); }
    if (answer.ok) return answer.json();
    let content = {};
    try { content = await answer.json(); } catch { /* plain text */ }
    if (answer.status === 403) notice("This page is closed: the server was started again. Open the address that it printed.");
    throw new Refused(answer.status, content);
  }
  function query(more = {}) {
    const found = new URLSearchParams();
    for (const [key, value] of Object.entries({ ...state.filter, ...more })) {
      if (value !== "" && value !== null && value !== undefined) found.set(key, value);
    }
    return found.toString();
  }
  // One thing at a time: a second key while a decision is on its way is ignored.
  async function work(task) {
    if (state.busy) return;
    state.busy += 1;
    root.dataset.busy = "yes";
    try {
      await task();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (error.status !== 0 && error.status !== 403) toast(error.message);
    } finally {
      state.busy -= 1;
      delete root.dataset.busy;
    }
  }

  // Address: view, filter and sample, so that a reload shows the same

  function remember() {
    const position = state.view === "one" && state.sample && state.sample.item ? state.sample.item.position : null;
    const hash = new URLSearchParams({ view: state.view });
    for (const [key, value] of Object.entries(state.filter)) if (value !== "") hash.set(key, value);
    if (position !== null) hash.set("position", position);
    if (state.view === "grid" && state.similarTo !== null) hash.set("similar", state.similarTo);
    history.replaceState(null, "", `#${hash}`);
  }
  function recall() {
    const hash = new URLSearchParams(location.hash.slice(1));
    state.view = hash.get("view") === "grid" ? "grid" : "one";
    state.similarTo = hash.has("similar") ? Number(hash.get("similar")) : null;
    for (const key of ["list", "given", "suggested", "low", "high", "verdict", "decided", "group", "search"]) {
      if (hash.has(key)) state.filter[key] = hash.get(key);
    }
    return hash.has("position") ? Number(hash.get("position")) : null;
  }

  // Progress

  function showStatus(status) {
    state.status = status;
    showCounts(status.counts);
    const { precision, left } = status.estimate;
    const interval = (each, form) => [make("b", { text: form(each.value) }), ` (${form(each.low)} to ${form(each.high)})`];
    at("figure-precision").replaceChildren(...(precision === null ? ["–"] : [...interval(precision, percent)]));
    at("figure-left").replaceChildren(...(left === null ? ["unknown"] : interval(left, (value) => whole(Math.round(value)))));
    const problem = status.data.state === "missing" ? status.data.problem : null;
    if (problem && !root.dataset.lost) notice(`Without the data: ${problem}`);
    showLearning(status.learning);
  }
  function showCounts(counts) {
    state.counts = counts;
    at("learn").setAttribute("aria-disabled", state.learning || !counts.decided);
    const done = counts.decided, all = done + counts.suspects, share = all ? done / all : 1;
    const bar = at("progress-bar");
    bar.firstElementChild.style.width = `${100 * share}%`;
    bar.setAttribute("aria-valuenow", Math.round(100 * share));
    const before = counts.decided_before ? `, ${whole(counts.decided_before)} before this review` : "";
    at("figure-decided").replaceChildren(make("b", { text: whole(done) }), before);
    at("figure-suspects").replaceChildren(make("b", { text: whole(counts.suspects) }));
  }
  function showLearning(learning) {
    const running = learning.state === "running";
    at("learn-text").textContent = running ? `Learning ${Math.round(100 * learning.progress)} %` : "Learn";
    at("learn-bar").hidden = !running;
    at("learn-bar").style.width = `${100 * learning.progress}%`;
    at("learn").setAttribute("aria-disabled", running || !state.counts.decided);
    if (state.learning && !running) {
      state.learning = false;
      if (learning.state === "failed") toast(`Learning failed: ${learning.message}`);
    } else {
      state.learning = running;
    }
    if (state.status.round !== state.seenRound) {
      state.seenRound = state.status.round;
      state.prefetched = null;
      state.jumpFirst = true;  // the worst of the new order come next
      if (learning.state === "done") toast(`Ranked anew with ${whole(learning.decisions)} decisions, in ${learning.seconds} s`);
      loadPairs();
      if (state.view === "grid" && ![...state.pending.values()].some((each) => each.touched)) work(() => loadGrid(0));
      else if (state.view === "one" && state.sample && state.sample.item) work(() => loadSample({ position: state.sample.item.position }));
    }
  }
  async function poll() {
    try {
      const status = await request("/api/status");
      const version = JSON.stringify(status.version.slice(0, 2));
      const elsewhere = state.seenVersion && version !== state.seenVersion && !state.busy;
      state.seenVersion = version;
      showStatus(status);
      if (elsewhere && state.view === "one" && state.sample && state.sample.item) {
        await work(() => loadSample({ position: state.sample.item.position }));  // someone else may have decided it
      }
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
    }
  }
  async function refreshStatus() {
    const status = await request("/api/status");
    state.seenVersion = JSON.stringify(status.version.slice(0, 2));
    showStatus(status);
  }
  function schedule() {
    setTimeout(async () => {
      if (!document.hidden) await poll();
      schedule();
    }, state.learning ? 300 : POLL);
  }
  async function learn() {
    if (at("learn").getAttribute("aria-disabled") === "true") { if (!state.learning) toast("Decide about some samples first"); return; }
    showLearning({ ...(await request("/api/learn", { tab })), state: "running" });
    setTimeout(poll, 300);
  }
  function maybeLearn(counts) {
    if (at("auto-learn").checked && counts.since_learning >= LEARN_EVERY && !state.learning) {
      state.learning = true;
      request("/api/learn", { tab }).then(() => setTimeout(poll, 300)).catch(() => { state.learning = false; });
    }
  }

  // One at a time

  async function loadSample(wanted) {
    const ready = state.prefetched;
    const usable = ready && wanted.position !== undefined && ready.position === wanted.position && ready.key === query();
    state.prefetched = null;
    showSample(usable ? await ready.answer : await request(`/api/sample?${query(wanted)}`));
  }
  function prefetch(position) {
    if (position === null) return;
    const answer = request(`/api/sample?${query({ position })}`);
    answer.then(({ item }) => { if (item.content.kind === "image") new Image().src = `/image/${position}`; }).catch(() => {});
    state.prefetched = { position, key: query(), answer };
  }
  function showSample(sample) {
    state.sample = sample;
    const item = sample.item;
    at("one").classList.toggle("empty", !item);
    if (!item) {
      at("one-title").textContent = "No sample in this list";
      const search = state.filter.search ? `Nothing in this list contains “${state.filter.search}”. ` : "";
      at("subject").replaceChildren(make("p", { class: "none", text: `${search}Choose another list or other filters.` }));
      at("compare").replaceChildren();
      at("others").replaceChildren();
      for (const id of ["given", "suggested", "quality", "confidence"]) at(id).textContent = "–";
      for (const button of at("actions").children) button.setAttribute("aria-disabled", button.id !== "undo");
      return remember();
    }
    const changes = item.suggested !== item.given;
    if (state.run.tags !== null) startTags(item);
    at("one-title").replaceChildren(sample.index === null ? "Outside of this list" : `${{ duplicates: "Near duplicate", outliers: "Outlier", all: "Sample" }[state.filter.list] || "Suspect"} ${whole(sample.index + 1)} of ${whole(sample.total)}`);
    at("jump").value = sample.index === null ? "" : sample.index + 1;
    at("jump").max = Math.max(sample.total, 1);
    const kind = item.content.kind;
    at("subject").className = `subject ${kind}`;
    const shown = content(item, false, state.run.classes);
    const box = kind === "image" ? shown : make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": kind === "text" ? "Text" : "Row" }, shown);
    const enlarge = kind === "image" ? [make("button", { id: "enlarge", "aria-keyshortcuts": "E", on: { click: () => actions.enlarge() } }, "Enlarge ", make("kbd", { text: "E" }))] : [];
    at("subject").replaceChildren(box, make("figcaption", {}, make("bdi", { class: "id", text: item.id }), ...enlarge));
    if (kind === "image") shown.addEventListener("click", () => actions.enlarge());
    at("given").textContent = name(item.given);
    at("quality").textContent = `${state.run.tags === null ? "label quality" : "quality of the most doubtful tag"} ${quality(item.quality)}`;
    at("suggested-title").textContent = item.unclear ? "Unclear, or" : state.run.tags === null ? "Suggested label" : "Suggested tags";
    at("suggested").textContent = changes ? name(item.suggested) : item.suspect ? "unclear" : "the same";
    at("suggested").className = changes ? "suggested" : "doubt";
    const why = item.unclear ? "the likeliest other class, but not likelier than the given one: " : "";
    const wrong = (item.doubts || []).filter(([, , suspect]) => suspect).length;
    at("confidence").textContent = wrong ? `${wrong === 1 ? "1 tag looks" : `${wrong} tags look`} wrong, the worst with ${percent(item.confidence)}` : changes ? `${why}confidence ${percent(item.confidence)}` : item.suspect ? "no other class is likelier" : "the given label looks right";
    at("others").replaceChildren(...(item.others.length ? [make("span", { class: "small", text: "Then:" })] : []), ...item.others.map(({ label, p }, index) =>
      make("button", { "data-label": label, "aria-keyshortcuts": index + 2, on: { click: () => decide("relabel", label) } },
        bdi(label), make("span", { class: "small", text: ` ${percent(p)} ` }), make("kbd", { text: index + 2 }))));
    at("accept").querySelector("bdi").textContent = changes ? name(item.suggested) : "the suggestion";
    at("keep").querySelector("bdi").textContent = name(item.given);
    for (const button of at("actions").children) button.setAttribute("aria-disabled", button.id === "accept" && !changes);
    for (const id of ["accept", "keep"]) at(id).classList.toggle("main", state.run.tags === null && !item.unclear && (id === "accept") === changes);
    at("previous").setAttribute("aria-disabled", sample.previous === null);
    at("next").setAttribute("aria-disabled", sample.next === null);
    showDecision(item);
    remember();
    compare(item);
    prefetch(state.jumpFirst ? sample.first_open : sample.next_open);
  }
  // Tags: what is on is kept until the sample, or its decision, is another one

  function startTags(item) {
    const key = `${item.position} ${seenNumber(item)}`;
    if (state.tags.key !== key) {
      const decided = item.decision && item.decision.action === "relabel" ? item.decision.label : item.given;
      const doubtful = item.doubts.filter(([, , suspect]) => suspect).map(([tag]) => tag);
      const order = [...doubtful, ...tagsOf(item.given), ...tagsOf(decided), ...item.doubts.map(([tag]) => tag)];
      const rest = state.run.tags.length <= MOST_TOGGLES ? state.run.tags.keys() : [];
      state.tags = { key, on: new Set(tagsOf(decided)), order: [...new Set([...order, ...rest])] };
    }
    showTags(item);
  }
  function showTags(item) {
    const doubts = new Map(item.doubts.map(([tag, value, suspect]) => [tag, { value, suspect }])), given = new Set(tagsOf(item.given));
    at("toggles").replaceChildren(...state.tags.order.map((tag, index) => {
      const doubt = doubts.get(tag), key = index < 9 ? index + 1 : index === 9 ? 0 : null;
      const why = doubt && doubt.suspect ? [make("span", { class: "small", text: `${given.has(tag) ? "extra" : "missing"}? ${percent(1 - doubt.value)}` })] : [];
      return make("button", { class: `tag ${doubt && doubt.suspect ? "suspect" : ""}`, "data-tag": tag, "aria-pressed": state.tags.on.has(tag) ? "true" : "false", "aria-keyshortcuts": key, on: { click: () => turnTag(tag) } },
        make("bdi", { text: state.run.tags[tag] }), ...why, ...(key === null ? [] : [make("kbd", { text: key })]));
    }));
    at("save-tags").querySelector("bdi").textContent = name(labelOf(state.tags.on));
  }
  function turnTag(tag) {
    const item = state.sample && state.sample.item;
    if (!item || tag === undefined) return;
    if (!state.tags.order.includes(tag)) state.tags.order.push(tag);
    if (!state.tags.on.delete(tag)) state.tags.on.add(tag);
    const focused = document.activeElement.closest("#toggles button");
    showTags(item);
    if (focused) at("toggles").querySelector(`[data-tag="${focused.dataset.tag}"]`)?.focus();
  }
  const saveTags = () => state.sample && state.sample.item && state.run.tags !== null && decide("relabel", labelOf(state.tags.on));

  function words(decision, given) {
    if (decision.action === "keep") return ["kept as ", bdi(given, "given")];
    if (decision.action === "relabel") return ["changed to ", bdi(decision.label, "suggested")];
    return [decision.action === "drop" ? "dropped" : "left as unsure"];
  }
  function showDecision(item) {
    const decision = item.decision, line = at("decision");
    line.hidden = !decision;
    if (!decision) return;
    const when = new Date(decision.made_at);
    line.replaceChildren("Decided: ", ...words(decision, item.given), ", by ", make("bdi", { text: decision.reviewer }), `, ${when.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })}`);
  }
  async function compare(item) {
    const box = at("compare");
    if (box.dataset.position !== String(item.position)) box.replaceChildren();
    box.dataset.position = item.position;
    let answer;
    const slow = setTimeout(() => box.replaceChildren(make("p", { class: "small", text: "Looking for samples to compare with …" })), 800);
    try { answer = await request(`/api/examples/${item.position}`); } catch { return; } finally { clearTimeout(slow); }
    if (box.dataset.position !== String(item.position)) return;  // another sample is shown by now
    box.replaceChildren(...answer.classes.map(({ name: text, items }, index) => make("section", { class: "surely", "aria-label": `Surely ${text}` },
      make("h3", {}, "Surely ", make("bdi", { class: index ? "suggested" : "given", text }), make("span", { class: "small", text: answer.similar ? " nearest to this one" : "" })),
      items.length
        ? make("ul", { class: "strip" }, ...items.map((each) => make("li", {}, content({ ...each, id: "" }, true))))
        : make("p", { class: "none", text: state.run.tags === null ? "no sample is surely of this class" : "no sample surely has this tag" }))));
  }
  const seenNumber = (item) => (item.decision ? item.decision.number : 0);
  function decide(action, label = null) {
    return work(async () => {
      const item = state.sample && state.sample.item;
      if (!item) return;
      const body = { tab, reviewer: reviewerName(), decisions: [{ position: item.position, action, label, seen: seenNumber(item) }] };
      const answer = await send(body, item.given);
      if (answer === null) return loadSample({ position: item.position });
      const made = answer.decisions[0];
      toast([`Saved: `, ...words(made, item.given).map((part) => (typeof part === "string" ? part : part.textContent))].join(""));
      const following = state.jumpFirst ? state.sample.first_open : state.sample.next_open;
      state.jumpFirst = false;
      if (following !== null) await loadSample({ position: following });
      else { await loadSample({ position: item.position }); toast("Saved. All samples of this list are decided."); }
      after(answer.counts);
    });
  }
  function after(counts) {
    showCounts(counts);
    maybeLearn(counts);
    refreshStatus().then(loadPairs).catch(() => {});
  }
  // Returns null if someone else decided meanwhile and the reviewer leaves it so.
  async function send(body, given) {
    try {
      return await request("/api/decide", body);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 409) throw error;
      const theirs = error.body.conflicts, count = error.body.positions.length;
      at("conflict-text").replaceChildren(...(count === 1
        ? (theirs.length ? ["This sample was ", ...words(theirs[0], given), " by ", make("bdi", { text: theirs[0].reviewer }), " since you saw it."] : ["The decision that you saw was undone meanwhile."])
        : [`${whole(count)} of these samples were decided by someone else since you saw them.`]));
      if (await ask(at("conflict")) !== "mine") return null;
      const numbers = new Map(theirs.map((each) => [each.position, each.number]));
      const changed = new Set(error.body.positions);
      return request("/api/decide", { ...body, decisions: body.decisions.map((each) => (changed.has(each.position) ? { ...each, seen: numbers.get(each.position) || 0 } : each)) });
    }
  }
  function ask(dialog) {
    dialog.returnValue = "";
    dialog.showModal();
    return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue), { once: true }));
  }
  function undo() {
    return work(async () => {
      let answer;
      try {
        answer = await request("/api/undo", { tab });
      } catch (error) {
        if (error.status === 409) return toast("It was decided again elsewhere since: nothing was undone");
        throw error;
      }
      if (!answer.positions.length) return toast("There is nothing to undo in this tab");
      toast(`Undone: ${answer.positions.length === 1 ? "one decision" : `${answer.positions.length} decisions`}`);
      state.prefetched = null;
      if (state.view === "one") await loadSample({ position: answer.positions[0] });
      else await loadGrid(state.offset);
      after(answer.counts);
    });
  }
  const reviewerName = () => at("reviewer").value.trim() || state.run.reviewer;

  // Grid

  const undecided = () => (state.filter.decided && state.filter.decided !== "any" ? {} : { decided: "no" });
  async function loadGrid(offset) {
    const similar = state.similarTo !== null;
    const answer = similar
      ? await request(`/api/similar/${state.similarTo}?limit=${PAGE}`)
      : await request(`/api/list?${query({ ...undecided(), offset, limit: PAGE })}`);
    if (answer.reason) { toast(answer.reason); state.similarTo = null; return loadGrid(0); }
    state.page = answer;
    state.offset = similar ? 0 : answer.offset;
    state.pending = new Map(answer.items.map((item) => [item.position, { ...firstChoice(item), item, touched: false }]));
    showGrid(similar);
  }
  const firstChoice = (item) => (item.decision
    ? { action: "leave", label: null }
    : item.suggested !== item.given && item.confidence > 0.5 ? { action: "relabel", label: item.suggested } : { action: "leave", label: null });
  function showGrid(similar) {
    const { items, total } = state.page;
    const pair = state.filter.given !== undefined && state.filter.given !== "" && state.filter.suggested ? [bdi(Number(state.filter.given), "given"), make("span", { class: "arrow", text: " → " }), bdi(Number(state.filter.suggested), "suggested")]
      : [at("f-pair").value ? at("f-pair").selectedOptions[0].textContent : "Undecided"];
    at("grid-title").replaceChildren(...(similar ? ["Similar to ", make("bdi", { class: "id", text: items[0].id })] : pair));
    at("grid-where").textContent = similar ? `${items.length} suspects` : total ? `${whole(state.offset + 1)}–${whole(state.offset + items.length)} of ${whole(total)}` : state.filter.search ? "no match" : "none left";
    at("grid-previous").setAttribute("aria-disabled", similar || state.offset === 0);
    at("grid-next").setAttribute("aria-disabled", similar || state.offset + items.length >= total);
    at("cards").replaceChildren(...items.map((item, index) => card(item, index)));
    if (!items.length) at("cards").append(make("li", { class: "none", text: state.filter.search ? `No undecided sample of this list contains “${state.filter.search}”.` : "All samples of this list are decided." }));
    showPending();
    remember();
  }
  // A file name breaks after its folders and before its extension, not in it.
  const breakable = (id) => id.split(/(?<=[/_])|(?=\.\w{1,5}$)/).flatMap((part, at) => (at ? [make("wbr"), part] : [part]));
  function card(item, index) {
    const pick = make("button", { class: "pick", "data-position": item.position, tabindex: index ? -1 : 0,
      on: { click: () => toggle(item.position), focus: (event) => rove(event.currentTarget) } },
      make("span", { class: `frame ${item.content.kind}` }, content(item, true)), make("span", { class: "choice" }));
    const more = make("button", { class: "more", "aria-label": `All choices for ${item.id}`, text: "…", on: { click: () => choose(item.position) } });
    return make("li", { class: "card" }, pick, make("div", { class: "labelling" }, make("p", { class: "change" }, bdi(item.given, "given"), make("span", { class: "arrow", text: " → " }),
      item.suggested === item.given ? make("span", { class: "doubt", text: item.suspect ? "unclear" : "looks right" }) : bdi(item.suggested, item.unclear ? "doubt" : "suggested")), more),
      make("p", { class: "small" }, item.suggested === item.given ? `quality ${quality(item.quality)}` : `${item.unclear ? "unclear, " : ""}confidence ${percent(item.confidence)}`), make("p", { class: "id" }, make("bdi", {}, ...breakable(item.id))));
  }
  function rove(focused) {
    for (const pick of at("cards").querySelectorAll(".pick")) pick.tabIndex = pick === focused ? 0 : -1;
  }
  const LEAVE = "leave undecided";
  function chosenWords({ action, label }) {
    if (action === "relabel") return name(label);
    return { keep: "keep", drop: "drop", unsure: "unsure", leave: LEAVE }[action];
  }
  function showPending() {
    let count = 0;
    for (const pick of at("cards").querySelectorAll(".pick")) {
      const chosen = state.pending.get(Number(pick.dataset.position)), { item, action } = chosen;
      count += action !== "leave";
      pick.dataset.action = action;
      pick.querySelector(".choice").replaceChildren(action === "relabel" ? bdi(chosen.label) : chosenWords(chosen));
      pick.setAttribute("aria-label", `${item.id}: given ${name(item.given)}, suggested ${name(item.suggested)}; ${action === "relabel" ? "change to " : ""}${chosenWords(chosen)}`);
    }
    at("save-text").textContent = count === 1 ? "Save 1 decision" : `Save ${count} decisions`;
    at("save").setAttribute("aria-disabled", !count);
  }
  function setChoice(position, action, label = null) {
    const chosen = state.pending.get(position);
    if (!chosen) return;
    if (action === "relabel" && label === null) label = chosen.item.suggested;
    if (action === "relabel" && label === chosen.item.given) { action = "keep"; label = null; }
    Object.assign(chosen, { action, label, touched: true });
    showPending();
  }
  const toggle = (position) => setChoice(position, state.pending.get(position).action === "relabel" ? "keep" : "relabel");
  function setAll(action) {
    for (const position of state.pending.keys()) setChoice(position, action);
  }
  function save() {
    return work(async () => {
      const chosen = [...state.pending.values()].filter((each) => each.action !== "leave");
      if (!chosen.length) return toast("Nothing to save: all are left undecided");
      const decisions = chosen.map(({ item, action, label }) => ({ position: item.position, action, label, seen: seenNumber(item) }));
      const answer = await send({ tab, reviewer: reviewerName(), decisions });
      if (answer === null) return loadGrid(state.offset);
      toast(`Saved: ${whole(decisions.length)} ${decisions.length === 1 ? "decision" : "decisions"}`);
      if (state.similarTo !== null) { state.similarTo = null; await loadGrid(0); }
      else await loadGrid(chosen.length === state.pending.size ? state.offset : state.offset + state.pending.size - chosen.length);
      at("cards").querySelector(".pick")?.focus({ preventScroll: true });
      scrollTo({ top: 0 });
      after(answer.counts);
    });
  }

  // The type-ahead for classes

  const choices = () => state.run.tags || state.run.classes;
  const chooser = { matches: [], active: 0, position: null };
  function choose(position = null) {
    if (state.run.tags !== null && position !== null) return openOne(position);  // several tags are set one by one
    chooser.position = position;
    at("chooser-more").hidden = position === null;
    at("chooser-input").value = "";
    showMatches();
    at("chooser").showModal();
    at("chooser-input").focus();
  }
  function found(text) {
    const wanted = text.trim().toLocaleLowerCase();
    const rank = (label) => {
      const low = state.lower[label], place = low.indexOf(wanted);
      if (place < 0) return -1;
      return place === 0 ? 0 : /[\s_\-/.]/.test(low[place - 1]) ? 1 : 2;
    };
    const groups = [[], [], []];
    state.lower.forEach((_, label) => { const group = rank(label); if (group >= 0) groups[group].push(label); });
    return groups.flat();
  }
  function showMatches() {
    chooser.matches = found(at("chooser-input").value);
    chooser.active = 0;
    at("chooser-list").replaceChildren(...chooser.matches.slice(0, CHOICES).map((label, index) =>
      make("li", { role: "option", id: `class-${index}`, "aria-selected": index === 0 ? "true" : "false", on: { click: () => pickClass(label) } }, make("bdi", { text: choices()[label] }))));
    const hidden = chooser.matches.length - CHOICES;
    at("chooser-count").textContent = !chooser.matches.length ? "nothing has this in its name" : hidden > 0 ? `and ${whole(hidden)} more` : "";
    activate(0);
  }
  function activate(index) {
    const options = at("chooser-list").children;
    if (!options.length) { at("chooser-input").removeAttribute("aria-activedescendant"); return; }
    chooser.active = (index + options.length) % options.length;
    [...options].forEach((each, number) => each.setAttribute("aria-selected", number === chooser.active ? "true" : "false"));
    options[chooser.active].scrollIntoView({ block: "nearest" });
    at("chooser-input").setAttribute("aria-activedescendant", `class-${chooser.active}`);
  }
  function pickClass(label) {
    at("chooser").close();
    if (state.run.tags !== null) turnTag(label);
    else if (chooser.position === null) decide("relabel", label);
    else setChoice(chooser.position, "relabel", label);
  }

  // Filters

  function pairName({ given, suggested }) {
    if (state.run.tags === null) return `${name(given)} → ${name(suggested)}`;
    return given === null ? `missing: ${state.run.tags[suggested]}` : `extra: ${state.run.tags[given]}`;
  }
  async function loadPairs() {
    const pairs = await request("/api/pairs");
    const now = at("f-pair").value;
    at("f-pair").replaceChildren(make("option", { value: "", text: "all pairs" }), ...pairs.map((each) =>
      make("option", { value: `${each.given ?? ""}>${each.suggested ?? ""}`, text: `${pairName(each)} (${whole(each.undecided)}${each.undecided === each.count ? "" : ` of ${whole(each.count)}`} left)` })));
    const { given = "", suggested = "" } = state.filter, wanted = given !== "" || suggested !== "" ? `${given}>${suggested}` : now;
    if ([...at("f-pair").options].some((each) => each.value === wanted)) at("f-pair").value = wanted;
  }
  function readFilters() {
    const [given, suggested] = at("f-pair").value ? at("f-pair").value.split(">") : ["", ""];
    const share = (id, empty) => { const value = Number(at(id).value); return at(id).value === "" || Number.isNaN(value) ? empty : Math.min(Math.max(value / 100, 0), 1); };
    const filter = { list: at("f-list").value, given, suggested, decided: at("f-decided").value, verdict: at("f-verdict").value, group: at("f-group").value, search: at("f-search").value.trim(), low: share("f-low", 0), high: share("f-high", 1) };
    const plain = { list: "suspects", decided: "any", verdict: "any", low: 0, high: 1 };
    state.filter = Object.fromEntries(Object.entries(filter).filter(([key, value]) => value !== "" && value !== plain[key]));
  }
  function showFilters() {
    const filter = state.filter;
    at("f-list").value = filter.list || "suspects";
    at("f-decided").value = filter.decided || "any";
    at("f-verdict").value = filter.verdict || "any";
    at("f-group").value = filter.group ?? "";
    at("f-search").value = filter.search || "";
    at("f-low").value = Math.round(100 * (filter.low ?? 0));
    at("f-high").value = Math.round(100 * (filter.high ?? 1));
    if (!filter.given && !filter.suggested) at("f-pair").value = "";
    at("more-filters").open = Boolean(filter.verdict || filter.low || filter.high);
  }
  function applyFilters() {
    readFilters();
    state.similarTo = null;
    state.prefetched = null;
    return reload();
  }
  const reload = () => work(() => (state.view === "one" ? loadSample({}) : loadGrid(0)));

  function setView(view) {
    state.view = view;
    for (const each of ["one", "grid"]) {
      at(each).hidden = each !== view;
      at(`view-${each}`).setAttribute("aria-pressed", each === view);
    }
    if (view === "one") state.similarTo = null;
  }
  // A change of the view waits for what is under way, such as news of other reviewers, and is not lost.
  async function turnTo(view, load) {
    while (state.busy) await new Promise((done) => setTimeout(done, 20));
    return work(() => { setView(view); return load(); });
  }
  const openView = (view) => turnTo(view, () => (view === "one" ? loadSample({}) : loadGrid(0)));
  const openOne = (position) => turnTo("one", () => loadSample({ position }));
  function similar() {
    const item = state.sample && state.sample.item;
    if (item) return turnTo("grid", () => { state.similarTo = item.position; return loadGrid(0); });
  }

  // Keys and buttons

  const enabled = (id) => at(id).getAttribute("aria-disabled") !== "true";
  const turn = (which) => { const to = state.sample && state.sample[which]; if (to !== null && to !== undefined) work(() => loadSample({ position: to })); };
  const actions = {
    accept: () => enabled("accept") && decide("relabel", state.sample.item.suggested), keep: () => enabled("keep") && decide("keep"),
    other: () => enabled("other") && choose(), drop: () => enabled("drop") && decide("drop"), unsure: () => enabled("unsure") && decide("unsure"),
    enlarge: () => at("enlarge") && at("subject").classList.toggle("enlarged"),
    undo, similar: () => enabled("similar") && similar(), previous: () => turn("previous"), next: () => turn("next"),
    "grid-undo": undo, save, "all-accept": () => setAll("relabel"), "all-keep": () => setAll("keep"), "all-leave": () => setAll("leave"),
    "grid-previous": () => enabled("grid-previous") && work(() => loadGrid(Math.max(state.offset - PAGE, 0))),
    "grid-next": () => enabled("grid-next") && work(() => loadGrid(state.offset + PAGE)),
    "view-one": () => openView("one"), "view-grid": () => openView("grid"), learn: () => work(learn), "menu-button": () => at("menu").showModal(), "save-tags": saveTags,
    "filters-button": () => at("filters-button").setAttribute("aria-expanded", at("filters").classList.toggle("open")),
  };
  const oneKeys = { a: "accept", k: "keep", c: "other", d: "drop", u: "unsure", s: "similar", e: "enlarge", ArrowLeft: "previous", ArrowRight: "next" };
  function onKey(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const target = event.target.closest("dialog") ? document.body : event.target;  // focus leaves a closed dialog later
    if (target.closest("input, select, textarea, summary, a") ) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const run = (action) => { event.preventDefault(); actions[action](); };
    if (key === "z") return run("undo");
    if (key === "l" && state.run.tags === null) return run("learn");
    if (key === "g") return run("view-grid");
    if (key === "1" && (state.run.tags === null || state.view === "grid")) return run("view-one");
    if (key === "o" && state.run.tags !== null && !target.closest(".pick")) return run("view-one");
    if (key === "?") return run("menu-button");
    if (key === "/") { event.preventDefault(); return at("f-search").focus(); }
    if (state.view === "one") {
      if (oneKeys[key]) return run(oneKeys[key]);
      if (state.run.tags !== null) {
        if (/^[0-9]$/.test(key)) { event.preventDefault(); turnTag(state.tags.order[key === "0" ? 9 : Number(key) - 1]); }
        else if (key === "Enter" && !target.closest("button:not(.tag)")) run("save-tags");
        return;
      }
      if (key === "2" || key === "3") { event.preventDefault(); at("others").querySelectorAll("button")[Number(key) - 2]?.click(); }
      return;
    }
    if (event.shiftKey && { a: 1, k: 1, x: 1 }[key]) return run({ a: "all-accept", k: "all-keep", x: "all-leave" }[key]);
    if (key === "Enter" && !target.closest("button:not(.pick)")) return run("save");
    const pick = target.closest(".pick");
    const picks = [...at("cards").querySelectorAll(".pick")], place = picks.indexOf(pick);
    const columns = getComputedStyle(at("cards")).gridTemplateColumns.split(" ").length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[key];
    if (step) { event.preventDefault(); picks[Math.min(Math.max(place + step, 0), picks.length - 1)]?.focus(); return; }
    if (!pick) return;
    const position = Number(pick.dataset.position), set = { a: "relabel", k: "keep", d: "drop", u: "unsure", x: "leave" }[key];
    if (set) { event.preventDefault(); setChoice(position, set); }
    else if (key === "c") { event.preventDefault(); choose(position); }
    else if (key === "o") { event.preventDefault(); openOne(position); }
  }

  function listen() {
    for (const [id, action] of Object.entries(actions)) at(id)?.addEventListener("click", () => action());
    document.addEventListener("keydown", onKey);
    at("filters").addEventListener("submit", (event) => { event.preventDefault(); applyFilters(); });
    for (const id of ["f-list", "f-pair", "f-group", "f-decided", "f-verdict", "f-low", "f-high"]) at(id).addEventListener("change", applyFilters);
    let waiting;
    at("f-search").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(applyFilters, 250); });
    at("f-clear").addEventListener("click", () => { state.filter = {}; showFilters(); applyFilters(); });
    at("jump").addEventListener("change", () => { const to = Number(at("jump").value); if (to >= 1) work(() => loadSample({ index: Math.floor(to) - 1 })); });
    at("jump").addEventListener("keydown", (event) => { if (event.key === "Enter") at("jump").blur(); });
    at("chooser-input").addEventListener("input", showMatches);
    at("chooser-input").addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); activate(chooser.active + step); }
      if (event.key === "Enter") { event.preventDefault(); if (chooser.matches.length) pickClass(chooser.matches[chooser.active]); }
    });
    for (const button of at("chooser-more").children) {
      button.addEventListener("click", () => {
        at("chooser").close();
        if (button.dataset.choice === "open") openOne(chooser.position);
        else setChoice(chooser.position, button.dataset.choice);
      });
    }
    at("chooser").addEventListener("close", () => {
      if (chooser.position !== null) at("cards").querySelector(`[data-position="${chooser.position}"]`)?.focus();
    });
    at("reviewer").addEventListener("change", () => kept.write("jnpl-reviewer", at("reviewer").value.trim()));
    at("auto-learn").addEventListener("change", () => kept.write("jnpl-auto-learn", at("auto-learn").checked ? "yes" : ""));
    const system = matchMedia("(prefers-color-scheme: dark)"), now = () => root.dataset.theme || (system.matches ? "dark" : "light");
    const label = () => { at("theme").textContent = now() === "dark" ? "Light theme" : "Dark theme"; };
    at("theme").addEventListener("click", () => { root.dataset.theme = now() === "dark" ? "light" : "dark"; kept.write("jnpl-theme", root.dataset.theme); label(); });
    label();
  }

  async function start() {
    state.run = await request("/api/run");
    if (state.run.tags !== null) {
      root.dataset.kind = "tags";
      at("chooser-title").textContent = "Another tag: turn it on or off";
      document.querySelector(".label-given dt").textContent = "Given tags";
      for (const [label, text] of [["other", "other tags suggested"], ["doubt", null]]) {
        const option = at("f-verdict").querySelector(`[value=${label}]`);
        if (text === null) option.remove(); else option.textContent = text;
      }
    }
    state.lower = choices().map((each) => each.toLocaleLowerCase());
    state.seenRound = state.run.status.round;
    document.title = `Label review: ${state.run.title}`;
    at("title").textContent = state.run.title;
    at("noise").hidden = !state.run.noise;
    at("noise").textContent = state.run.noise || "";
    at("reviewer").value = kept.read("jnpl-reviewer") || state.run.reviewer;
    at("auto-learn").checked = kept.read("jnpl-auto-learn") === "yes";
    for (const list of ["duplicates", "outliers"]) {
      const option = at("f-list").querySelector(`[value=${list}]`), count = state.run.lists[list];
      option.disabled = !count;
      option.textContent += count === null ? " (not searched)" : ` (${whole(count)})`;
    }
    at("groups").hidden = !state.run.groups.length;
    at("f-group").append(...state.run.groups.map((each, number) => make("option", { value: number, text: `${each.column} ${each.group} (${whole(each.samples)})` })));
    listen();
    const position = recall();
    setView(state.view);
    showFilters();
    showStatus(state.run.status);
    state.seenVersion = JSON.stringify(state.run.status.version.slice(0, 2));
    loadPairs();
    await work(() => (state.view === "grid" ? loadGrid(0) : loadSample(position === null ? {} : { position })));
    root.dataset.ready = "yes";
    schedule();
  }
  start().catch((error) => { if (!(error instanceof Refused)) throw error; });
})();
