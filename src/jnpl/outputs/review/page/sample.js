// What the pages of `jnpl review` and `jnpl audit` share: elements, the contents of samples, what the browser keeps.
"use strict";
window.jnplPage = (() => {
  const root = document.documentElement;
  const kept = {
    read(name, store = localStorage) { try { return store.getItem(name); } catch { return null; } },
    write(name, value, store = localStorage) { try { store.setItem(name, value); } catch { /* no storage */ } },
  };
  const theme = kept.read("jnpl-theme");
  if (theme === "dark" || theme === "light") root.dataset.theme = theme;

  // A tab keeps its name when it is reloaded: `undo` takes back what this tab decided.
  const tab = kept.read("jnpl-tab", sessionStorage) || crypto.randomUUID();
  kept.write("jnpl-tab", tab, sessionStorage);

  function make(tag, options = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(options)) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "text") element.textContent = value;
      else if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  // Contents of samples

  function content(item, small, names = []) {
    const what = item.content;
    if (what.kind === "image") {
      const image = make("img", { src: `/image/${item.position}${small ? "?small=true" : ""}`, alt: small ? "" : `Sample ${item.id}`, decoding: "async" });
      image.addEventListener("load", () => { image.style.maxHeight = `${Math.max(3 * image.naturalHeight, 240)}px`; });  // not all blur
      image.addEventListener("error", () => image.replaceWith(make("p", { class: "none", text: "no picture" })));
      return image;
    }
    if (what.kind === "text") return make("p", { class: "text", dir: "auto", text: what.text + (what.cut ? " …" : "") });
    if (!what.cells.length) return make("p", { class: "none", text: "the run folder has no copy of this row" });
    const body = make("tbody"), usual = what.usual;
    what.cells.forEach(([key, value], at) => {
      const others = usual ? usual.cells[at].map((text) => make("td", { class: "usual" }, make("bdi", { text: text || "–" }))) : [];
      body.append(make("tr", {}, make("th", { scope: "row" }, make("bdi", { text: key })), make("td", {}, make("bdi", { text: value || "–" })), ...others));
    });
    if (!usual) return make("table", { class: "cells" }, body);
    const kinds = ["given", "suggested"];
    const heads = usual.labels.map((label, at) => make("th", { scope: "col", class: "usual" }, "usual in ", make("bdi", { class: kinds[at], text: names[label] })));
    return make("table", { class: "cells" }, make("thead", {}, make("tr", {}, make("td"), make("th", { scope: "col", text: "this row" }), ...heads)), body);
  }

  return { kept, make, content, tab };
})();
