// Keys, live updates and ages. The pages work without it; it never makes markup out of text.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const main = () => document.getElementById("main");
  const rows = () => [...document.querySelectorAll("tr[data-row]")];
  let tag = main()?.dataset.tag || "";
  let held = false;
  let waiting = false;
  let at = "";

  function status(text, kind) {
    const place = document.getElementById("live");
    if (place) { place.textContent = text; place.className = kind; }
  }

  function ages() {
    for (const time of document.querySelectorAll("time[datetime]")) {
      const then = Date.parse(time.getAttribute("datetime"));
      if (!Number.isFinite(then)) continue;
      if (!time.title) time.title = time.textContent;
      const seconds = Math.max(0, (Date.now() - then) / 1000);
      const [amount, unit] = seconds < 90 ? [seconds, "s"] : seconds < 5400 ? [seconds / 60, "min"] : seconds < 172800 ? [seconds / 3600, "h"]
        : [seconds / 86400, "days"];
      time.textContent = `${Math.round(amount)} ${unit} ago`;
    }
  }

  function keyOf(details) {
    return details.id || details.querySelector("summary")?.textContent || "";
  }

  // The new page's content in place of the old one's; what a reader has opened, picked or is typing stays.
  function swap(text) {
    const fresh = new DOMParser().parseFromString(text, "text/html").getElementById("main");
    const old = main();
    if (!fresh || !old) return;
    const opened = new Map([...old.querySelectorAll("details")].map((each) => [keyOf(each), each.open]));
    for (const each of fresh.querySelectorAll("details")) if (opened.has(keyOf(each))) each.open = opened.get(keyOf(each));
    const picked = new Set([...old.querySelectorAll("input[type=checkbox]:checked")].map((each) => each.value));
    for (const each of fresh.querySelectorAll("input[type=checkbox]")) each.checked = picked.has(each.value);
    const seen = new Set([...old.querySelectorAll("tr[data-row]")].map((row) => row.dataset.href));
    for (const row of fresh.querySelectorAll("tr[data-row]")) if (!seen.has(row.dataset.href)) row.classList.add("new");
    const typing = old.querySelector("form.filter:focus-within");
    const place = typing && [...old.querySelectorAll("form.filter")].indexOf(typing);
    const scrolled = window.scrollY;
    if (typing) {  // moving a focused field would lose the caret: the rest is put around it
      const twin = fresh.querySelectorAll("form.filter")[place];
      if (!twin || !graft(old, fresh, typing, twin)) return;
    } else {
      old.replaceChildren(...fresh.childNodes);
    }
    old.dataset.tag = fresh.dataset.tag || "";
    ages();
    mark(rows().find((row) => row.dataset.href === at), false);
    window.scrollTo(0, scrolled);
  }

  // Replaces everything in `old` but the elements on the way to `kept`.
  function graft(old, fresh, kept, twin) {
    let [here, there] = [kept, twin];
    while (here !== old) {
      const [above, over] = [here.parentElement, there.parentElement];
      if (!above || !over) return false;
      const nodes = [...over.childNodes];
      const cut = nodes.indexOf(there);
      for (const node of [...above.childNodes]) if (node !== here) node.remove();
      here.before(...nodes.slice(0, cut));
      here.after(...nodes.slice(cut + 1));
      [here, there] = [above, over];
    }
    return true;
  }

  async function look() {
    if (held || waiting || !tag || document.visibilityState !== "visible") return;
    waiting = true;
    try {
      const answer = await fetch(location.href.split("#")[0], { cache: "no-cache", credentials: "same-origin" });
      const now = (answer.headers.get("etag") || "").replace(/^W\//, "").replaceAll('"', "");
      if (answer.ok && now && now !== tag) {
        swap(await answer.text());
        tag = now;
      }
      status(answer.ok ? "live" : "gone", answer.ok ? "on" : "off");
    } catch {
      status("no answer", "off");
    } finally {
      waiting = false;
    }
  }

  function mark(row, show = true) {
    for (const each of document.querySelectorAll("tr.at")) each.classList.remove("at");
    if (!row) return;
    at = row.dataset.href;
    row.classList.add("at");
    if (show) { row.scrollIntoView({ block: "nearest" }); row.focus({ preventScroll: true }); }
  }

  function step(by) {
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((row) => row.classList.contains("at"));
    mark(all[Math.min(all.length - 1, Math.max(0, now + by))]);
  }

  function up() {
    const links = [...document.querySelectorAll("header nav a")];
    const here = location.pathname + location.search;
    const target = links.reverse().find((link) => link.getAttribute("href") !== here);
    if (target) location.assign(target.href);
  }

  const KEYS = {
    j: () => step(1),
    k: () => step(-1),
    u: up,
    "/": () => document.querySelector("input[type=search]")?.focus(),
    p: () => { held = !held; status(held ? "held" : "live", held ? "" : "on"); },
    "?": () => document.getElementById("keys")?.showModal(),
  };

  document.addEventListener("keydown", (event) => {
    const field = event.target.closest?.("input, select, textarea");
    if (event.key === "Escape" && field) return field.blur();
    if (field || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && event.target.matches?.("tr[data-row]")) return location.assign(event.target.dataset.href);
    if (document.querySelector("dialog[open]")) return;
    const act = KEYS[event.key];
    if (act) { event.preventDefault(); act(); }
  });

  document.addEventListener("click", (event) => {
    if (event.target.closest("#help")) return document.getElementById("keys")?.showModal();
    const row = event.target.closest("tr[data-row]");
    if (!row || event.target.closest("a, input, button") || getSelection()?.toString()) return;
    location.assign(row.dataset.href);
  });

  document.addEventListener("change", (event) => {
    if (event.target.matches("form.filter select")) event.target.form.requestSubmit();
  });

  document.addEventListener("submit", (event) => {  // addresses without the fields that are empty
    for (const field of event.target.elements) if (field.name && !field.value) field.disabled = true;
  });

  window.addEventListener("pageshow", () => {
    for (const field of document.querySelectorAll("form :disabled")) field.disabled = false;
  });

  ages();
  if (tag) { status("live", "on"); setInterval(look, EVERY_MS); setInterval(ages, 15000); }
})();
