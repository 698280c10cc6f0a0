// Answers the requests of the review page from a file, in place of `jnpl review`: nothing leaves the browser.
"use strict";
(() => {
  const ACTIONS = ["keep", "relabel", "drop", "unsure"];
  const made = new Map(), batches = [];  // position -> decision
  let number = 0;
  const stored = fetch("demo.json").then((answer) => answer.json());
  const share = (value, empty) => (value === null ? empty : Number(value));

  function counts(items) {
    const actions = Object.fromEntries(ACTIONS.map((name) => [name, [...made.values()].filter((each) => each.action === name).length]));
    const suspects = items.filter((item) => item.suspect && !made.has(item.position)).length;
    return { suspects, decided: made.size, decided_before: 0, actions, since_learning: made.size };
  }
  function status({ run, items }) {
    const chance = (list) => list.reduce((sum, item) => sum + 1 - (item.quality ?? 1), 0), { left } = run.status.estimate;
    const part = chance(items.filter((item) => !made.has(item.position))) / chance(items);
    const scaled = Object.fromEntries(Object.entries(left).map(([name, value]) => [name, value * part]));
    return { ...run.status, version: [number, batches.length, 0], counts: counts(items), estimate: { precision: null, left: scaled } };
  }
  const shown = ({ ranked, ...item }) => ({ ...item, decision: made.get(item.position) || null });
  function listed({ items }, wanted) {
    const text = (wanted.get("search") || "").toLowerCase(), list = wanted.get("list") || "suspects", verdict = wanted.get("verdict") || "any";
    return items.filter((item) => (list === "all" || item.suspect)
      && (wanted.get("given") === null || item.given === Number(wanted.get("given")))
      && (wanted.get("suggested") === null || item.ranked.suggested === Number(wanted.get("suggested")))
      && item.ranked.confidence >= share(wanted.get("low"), 0) && item.ranked.confidence <= share(wanted.get("high"), 1)
      && (verdict === "any" || (verdict === "fine" ? !item.suspect : item.suspect && (item.ranked.suggested !== item.given) === (verdict === "other")))
      && item.id.toLowerCase().includes(text));
  }
  function matches(item, decided) {
    const decision = made.get(item.position);
    if (decided === null || decided === "any") return true;
    return decided === "yes" ? Boolean(decision) : decided === "no" ? !decision : Boolean(decision) && decision.action === decided;
  }
  function page(demo, wanted) {
    const all = listed(demo, wanted).filter((item) => matches(item, wanted.get("decided")));
    const offset = Math.min(Number(wanted.get("offset") || 0), Math.max(all.length - 1, 0));
    return { total: all.length, offset, items: all.slice(offset, offset + Number(wanted.get("limit") || 24)).map(shown), round: 0 };
  }
  function sample(demo, wanted) {
    const list = listed(demo, wanted), kept = list.filter((item) => matches(item, wanted.get("decided")));
    let item = demo.items.find((each) => String(each.position) === wanted.get("position"));
    if (!item && !kept.length) return { item: null, total: 0, round: 0 };
    if (!item && wanted.has("index")) item = kept[Math.min(Number(wanted.get("index")), kept.length - 1)];
    item = item || kept.find((each) => !made.has(each.position)) || kept[0];
    const place = list.indexOf(item), later = list.slice(place + 1), earlier = list.slice(0, Math.max(place, 0));
    const fits = (each) => matches(each, wanted.get("decided")), open = (each) => fits(each) && !made.has(each.position) && each !== item;
    const at = (each) => (each ? each.position : null);
    const index = kept.indexOf(item);
    return {
      item: shown(item), index: index < 0 ? null : index, total: kept.length, next: at(later.find(fits)), previous: at(earlier.reverse().find(fits)),
      next_open: at(later.find(open) || list.find(open)), first_open: at(list.find(open)), round: 0,
    };
  }
  function pairs({ items }) {
    const found = new Map();
    for (const { given, ranked: { suggested }, suspect, position } of items) {
      if (!suspect || given === suggested) continue;
      const pair = found.get(`${given}>${suggested}`) || { given, suggested, count: 0, undecided: 0 };
      found.set(`${given}>${suggested}`, Object.assign(pair, { count: pair.count + 1, undecided: pair.undecided + !made.has(position) }));
    }
    return [...found.values()].sort((one, other) => other.undecided - one.undecided || other.count - one.count || one.given - other.given || one.suggested - other.suggested);
  }
  function decide(demo, { reviewer, decisions }) {
    batches.push(decisions.map(({ position }) => [position, made.get(position)]));
    for (const { position, action, label } of decisions) {
      const { given } = demo.items.find((item) => item.position === position), keeps = action === "relabel" && label === given;
      made.set(position, { number: ++number, position, action: keeps ? "keep" : action, label: keeps ? null : label, reviewer, made_at: new Date().toISOString() });
    }
    return { decisions: decisions.map(({ position }) => made.get(position)).sort((one, other) => one.position - other.position), counts: counts(demo.items) };
  }
  function undo(demo) {
    const batch = batches.pop() || [];
    for (const [position, before] of batch) if (before) made.set(position, before); else made.delete(position);
    return { positions: batch.map(([position]) => position), counts: counts(demo.items) };
  }

  const real = window.fetch.bind(window);
  window.fetch = async (path, options = {}) => {
    if (!path.startsWith("/api/")) return real(path, options);
    const demo = await stored, [name, query] = path.slice(5).split("?"), [what, position] = name.split("/"), wanted = new URLSearchParams(query);
    if (what === "learn") return Response.json({ error: "This page has no Python behind it: try Learn in jnpl review" }, { status: 400 });
    const answers = {
      run: () => ({ ...demo.run, status: status(demo) }), status: () => status(demo), list: () => page(demo, wanted), sample: () => sample(demo, wanted),
      pairs: () => pairs(demo), examples: () => demo.examples[position] || { similar: false, classes: [] },
      similar: () => ({ items: [Number(position), ...(demo.similar[position] || [])].map((at) => demo.items.find((item) => item.position === at)).filter((item, index) => !index || !made.has(item.position)).map(shown) }),
      decide: () => decide(demo, JSON.parse(options.body)), undo: () => undo(demo),
    };
    return Response.json(answers[what]());
  };
})();
