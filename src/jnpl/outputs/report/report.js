"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // A page opened from a disk may have no storage: then the theme lasts as long as the page.
  const kept = { read() { try { return localStorage.getItem("jnpl-theme"); } catch { return null; } },
                 write(theme) { try { localStorage.setItem("jnpl-theme", theme); } catch { /* no storage */ } } };
  const stored = kept.read();
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;

  function themes() {
    const button = document.getElementById("theme"), system = matchMedia("(prefers-color-scheme: dark)");
    const now = () => root.dataset.theme || (system.matches ? "dark" : "light");
    const label = () => { button.textContent = now() === "dark" ? "Light theme" : "Dark theme"; };
    button.addEventListener("click", () => {
      root.dataset.theme = now() === "dark" ? "light" : "dark";
      kept.write(root.dataset.theme);
      label();
    });
    system.addEventListener("change", label);
    button.hidden = false;
    label();
  }

  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
    const letters = new Intl.Collator(undefined, { numeric: true });
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      const isNumber = head.classList.contains("number");
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const down = before ? before === "ascending" : isNumber; // the largest number first, the first letter first
        heads.forEach((each) => each.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => (isNumber ? Number(row.cells[column].dataset.value) : row.cells[column].textContent.trim());
        const rows = [...body.rows].map((row) => [key(row), row]);
        const compare = isNumber ? (a, b) => a - b : letters.compare;
        rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
        body.append(...rows.map((pair) => pair[1]));
      });
    });
  }

  function paged(block) {
    const items = [...block.querySelectorAll("[data-given]")], foot = block.querySelector(".foot");
    const size = Number(block.dataset.size) / (matchMedia("(max-width: 40rem)").matches ? 2 : 1); // a phone shows less
    const filters = [...block.querySelectorAll("select[data-filter]")];
    const buttons = [...block.querySelectorAll("button[data-turn]")];
    let page = 0;
    const chosen = () => items.filter((item) =>
      filters.every((filter) => filter.value === "" || item.dataset[filter.dataset.filter].split(" ").includes(filter.value)));
    const pages = (shown) => Math.max(Math.ceil(shown.length / size), 1);
    const target = { first: () => 0, previous: () => page - 1, next: () => page + 1, last: () => Infinity };

    function show(wanted) {
      const shown = chosen(), last = pages(shown) - 1;
      page = Math.min(Math.max(wanted, 0), last);
      const visible = new Set(shown.slice(page * size, (page + 1) * size));
      items.forEach((item) => { item.hidden = !visible.has(item); });
      const from = page * size + 1, to = page * size + visible.size;
      const words = visible.size ? `${from}\u2013${to} of ${shown.length}` : "none";
      block.querySelectorAll(".where").forEach((where) => { where.textContent = words; });
      foot.hidden = last === 0;
      // Not `disabled`: the button that was just pressed would lose the keyboard's focus.
      buttons.forEach((button) => {
        const back = button.dataset.turn === "first" || button.dataset.turn === "previous";
        button.setAttribute("aria-disabled", String(page === (back ? 0 : last)));
      });
    }

    buttons.forEach((button) => button.addEventListener("click", () => show(target[button.dataset.turn]())));
    filters.forEach((filter) => filter.addEventListener("change", () => show(0)));
    block.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last" }[event.key];
      const plain = !event.altKey && !event.ctrlKey && !event.metaKey && !event.shiftKey;
      if (!turn || !plain || !event.target.closest(".turn")) return;
      event.preventDefault();
      show(target[turn]());
    });
    show(0);
  }

  // Paper has no summary to click.
  function printed() {
    let opened = [];
    addEventListener("beforeprint", () => {
      opened = [...document.querySelectorAll("details[data-print]:not([open])")];
      opened.forEach((each) => { each.open = true; });
    });
    addEventListener("afterprint", () => opened.forEach((each) => { each.open = false; }));
  }

  document.addEventListener("DOMContentLoaded", () => {
    themes();
    printed();
    document.querySelectorAll("table.sortable").forEach(sortable);
    document.querySelectorAll(".paged").forEach(paged);
  });
})();
