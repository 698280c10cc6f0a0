// The page of `jnpl audit`: one label after the other, without what the run thinks of it.
"use strict";
(() => {
  const KEYS = 9, MORE = 50, WRONG = -1, UNSURE = -2;
  const { kept, make, content, tab } = window.jnplPage;
  const root = document.documentElement, at = (id) => document.getElementById(id);
  let state = null, busy = false;

  const whole = (number) => number.toLocaleString("en");
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  const span = ([low, high]) => `${percent(low)} to ${percent(high)}`;
  function toast(text) {
    at("toast").textContent = text;
    at("toast").classList.add("shown");
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => at("toast").classList.remove("shown"), 3000);
  }
  function notice(text) {
    at("notice").hidden = !text;
    at("notice").textContent = text || "";
  }
  // One thing at a time: a second key while an answer is on its way is ignored.
  async function send(path, body, said) {
    if (busy) return;
    busy = true;
    root.dataset.busy = "yes";
    try {
      const answer = await fetch(path, body === undefined ? {} : {
        method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ tab, ...body }),
      });
      const result = await answer.json().catch(() => ({}));
      if (!answer.ok) { notice(result.error || "This page is closed: open the address that jnpl printed."); return; }
      notice("");
      show(result);
      if (said) toast(said);
    } catch {
      notice("The server does not answer. Nothing is lost: every answer that was shown as saved is in the run folder. Start jnpl audit again.");
    } finally {
      busy = false;
      delete root.dataset.busy;
    }
  }
  const name = (label) => state.classes[label];
  function answer(label) {
    const { item } = state;
    if (!item) return;
    const words = label === WRONG ? "wrong" : label === UNSURE ? "cannot tell" : label === item.given ? "right" : `wrong, it is ${name(label)}`;
    return send("/api/audit/answer", { reviewer: kept.read("jnpl-reviewer") || state.reviewer, position: item.position, label }, `Saved: ${words}`);
  }
  const undo = () => state.answered && send("/api/audit/undo", {}, "Undone: the last answer");
  const more = () => state.result && send("/api/audit/more", { count: MORE });

  function show(next) {
    state = next;
    const { item, drawn, answered } = state, done = Math.round((100 * answered) / drawn);
    at("title").textContent = state.title;
    at("count").textContent = `${whole(answered)} of ${whole(drawn)} labels checked`;
    at("bar").setAttribute("aria-valuenow", done);
    at("bar").firstElementChild.style.width = `${done}%`;
    at("check").hidden = !item;
    at("result").hidden = Boolean(item);
    at("hint").hidden = !item;
    at("undo").setAttribute("aria-disabled", !answered);
    if (item) showItem(item);
    else showResult(state.result);
  }
  function showItem(item) {
    const kind = item.content.kind, shown = content(item);
    at("subject").className = `subject ${kind}`;
    at("subject").replaceChildren(kind === "image" ? shown : make("div", { class: "scroller", tabindex: 0, role: "region", "aria-label": kind === "text" ? "Text" : "Row" }, shown));
    at("given").textContent = name(item.given);
    const few = state.classes.length <= KEYS;
    at("typed").hidden = few;
    at("classes").replaceChildren(...(few ? state.classes.map((each, label) =>
      make("button", { disabled: label === item.given, "aria-keyshortcuts": label + 1, on: { click: () => answer(label) } }, make("bdi", { text: each }), " ", make("kbd", { text: label + 1 }))) : []));
    at("class").value = "";
  }
  function showResult(result) {
    const title = result.noise_rate === undefined ? "No label was judged" : `About ${percent(result.noise_rate)} of the labels are wrong`;
    at("result-title").textContent = title;
    const unsure = result.unsure ? ` ${whole(result.unsure)} could not be told; the interval allows for both answers.` : "";
    at("sentence").textContent = result.noise_rate === undefined ? "All were left as not to be told." : `Between ${span(result.noise_interval).replace(" to ", " and ")} with 90 % confidence: ${whole(result.wrong)} of ${whole(result.checked)} checked labels are wrong.${unsure} The run now uses this share in place of its estimate.`;
    at("by-class").tBodies[0].replaceChildren(...(result.by_class || []).map((each) => make("tr", {},
      make("th", { scope: "row" }, make("bdi", { text: each.class })), make("td", { class: "number", text: whole(each.checked) }), make("td", { class: "number", text: whole(each.wrong) }), make("td", { class: "number", text: span(each.noise_interval) }))));
    at("halve").textContent = result.more_to_halve ? `About ${whole(result.more_to_halve)} more checks would halve the interval.` : "";
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !state) return;
    if (event.target.closest("input")) {
      if (event.key === "Escape") at("class").blur();
      return;
    }
    const key = event.key.toLowerCase(), run = (task) => { event.preventDefault(); task(); };
    if (key === "z") return run(undo);
    if (key === "m") return run(more);
    if (!state.item) return;
    if (key === "k") return run(() => answer(state.item.given));
    if (key === "w") return run(() => answer(WRONG));
    if (key === "u") return run(() => answer(UNSURE));
    if (key === "c" && !at("typed").hidden) return run(() => at("class").focus());
    const label = Number(key) - 1;
    if (!at("classes").childElementCount || !(label >= 0 && label < state.classes.length)) return;
    run(() => answer(label));
  }
  function typed() {
    const wanted = at("class").value.trim().toLocaleLowerCase();
    const fits = state.classes.map((each, label) => [each.toLocaleLowerCase(), label]).filter(([each]) => each.includes(wanted));
    const exact = fits.filter(([each]) => each === wanted), chosen = exact.length ? exact : fits;
    if (!wanted || !chosen.length) return toast("No class has this in its name");
    if (chosen.length > 1) return toast(`${whole(chosen.length)} classes have this in their name: type more of it`);
    at("class").blur();
    answer(chosen[0][1]);
  }

  for (const [id, task] of Object.entries({ right: () => answer(state.item.given), wrong: () => answer(WRONG), unsure: () => answer(UNSURE), undo, back: undo, more })) at(id).addEventListener("click", task);
  document.addEventListener("keydown", onKey);
  at("class").addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); typed(); } });
  send("/api/audit").then(() => {
    if (!state) return;
    document.title = `Label audit: ${state.title}`;
    at("names").replaceChildren(...(state.classes.length > KEYS ? state.classes.map((each) => make("option", { value: each })) : []));
    root.dataset.ready = "yes";
  });
})();
