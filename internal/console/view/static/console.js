// The stream of events. The page says plainly when it is not connected. The server sends something every 15 seconds, so a stream that is
// silent for longer is lost, although the browser may not notice. A hidden page has no stream, because a browser opens few connections to
// one server.
const connection = document.getElementById("connection");
const lostText = "Not connected: this page shows an earlier state. It continues by itself.";
const endedText = "Your session has ended: this page shows an earlier state. Reload it to sign in.";
let source = null, last = "", alarm = 0, quietly = false;
const say = (text) => { if (connection.textContent !== text) connection.textContent = text; connection.hidden = text === ""; };
const connectWithin = (seconds) => { clearTimeout(alarm); alarm = setTimeout(connectAgain, seconds * 1000); };
const heard = (event) => {
  if (event.lastEventId) last = event.lastEventId;
  say("");
  connectWithin(35);
};
const connectAgain = () => {
  source.close();
  source.onerror(new Event("error")); // the extension of htmx opens another one
};
htmx.createEventSource = (path) => {
  if (source !== null) source.close();
  const from = new URL(path, location.href);
  if (last !== "") from.searchParams.set("last", last);
  source = new EventSource(from);
  ["open", "alive", "update"].forEach((name) => source.addEventListener(name, heard));
  if (document.hidden) source.close(); else connectWithin(10);
  quietly = false;
  return source;
};
addEventListener("htmx:sseError", (event) => {
  if (event.detail.source !== source) return;
  const closed = source.readyState === EventSource.CLOSED;
  if (closed) clearTimeout(alarm);
  if (document.hidden || quietly) return;
  say(lostText);
  if (closed) fetch(location.href, { method: "HEAD", cache: "no-store" }).then((r) => { if (r.status === 401) say(endedText); }, () => {});
});
addEventListener("visibilitychange", () => {
  if (source === null) return;
  if (document.hidden) {
    clearTimeout(alarm);
    source.close();
  } else if (source.readyState === EventSource.CLOSED) {
    quietly = true;
    connectAgain();
  }
});

// What the user unfolded, scrolled or focused in a region stays so when the region is replaced.
const scrolling = ".scroll, pre";
const focusable = "a[href], button, input, summary, [tabindex]";
const keyOf = (e) => [e.tagName, e.id || e.getAttribute("href") || e.getAttribute("name") || e.textContent.trim()].join(" ");
const kept = new Map();
addEventListener("htmx:oobBeforeSwap", (event) => {
  const before = event.detail.target, details = before.querySelectorAll("details");
  event.detail.fragment.querySelectorAll("details").forEach((after, i) => { after.open = details[i] ? details[i].open : after.open; });
  const all = Array.from(before.querySelectorAll(focusable)), at = all.indexOf(document.activeElement);
  const key = at < 0 ? "" : keyOf(all[at]);
  kept.set(before.id, {
    scrolled: Array.from(before.querySelectorAll(scrolling), (e) => [e.scrollLeft, e.scrollTop]),
    at, key, nth: all.slice(0, Math.max(at, 0)).filter((e) => keyOf(e) === key).length,
  });
});
addEventListener("htmx:oobAfterSwap", (event) => {
  const after = document.getElementById(event.detail.target.id), before = kept.get(event.detail.target.id);
  kept.delete(event.detail.target.id);
  if (!after || !before) return;
  after.querySelectorAll(scrolling).forEach((e, i) => { if (before.scrolled[i]) [e.scrollLeft, e.scrollTop] = before.scrolled[i]; });
  if (before.at < 0) return;
  // The same link can be there twice. What is gone leaves the focus to what took its place.
  const all = Array.from(after.querySelectorAll(focusable)), same = all.filter((e) => keyOf(e) === before.key);
  const to = same[Math.min(before.nth, same.length - 1)] || all[Math.min(before.at, all.length - 1)];
  if (to) to.focus({ preventScroll: true });
});

// The map of nodes: the arrow keys move between cells, so that the map is one stop of the tab key. The filter hides cells while the user types.
const cells = () => Array.from(document.querySelectorAll("#map a.cell:not([hidden])"));
const stop = (cell) => {
  document.querySelectorAll('#map a.cell[tabindex="0"]').forEach((c) => { c.tabIndex = -1; });
  if (cell) cell.tabIndex = 0;
};
const below = (all, at, step) => {
  const from = all[at].getBoundingClientRect();
  let best = at, row = null;
  for (let i = at + step; i >= 0 && i < all.length; i += step) {
    const box = all[i].getBoundingClientRect();
    if (Math.abs(box.top - from.top) < 2) continue;
    if (row === null) row = box.top;
    if (Math.abs(box.top - row) > 2) break;
    if (best === at || Math.abs(box.left - from.left) < Math.abs(all[best].getBoundingClientRect().left - from.left)) best = i;
  }
  return best;
};
addEventListener("keydown", (event) => {
  const cell = event.target.closest ? event.target.closest("#map a.cell") : null;
  if (!cell || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  const all = cells(), at = all.indexOf(cell);
  let to;
  switch (event.key) {
    case "ArrowRight": to = at + 1; break;
    case "ArrowLeft": to = at - 1; break;
    case "ArrowDown": to = below(all, at, 1); break;
    case "ArrowUp": to = below(all, at, -1); break;
    case "Home": to = 0; break;
    case "End": to = all.length - 1; break;
    default: return;
  }
  event.preventDefault();
  const next = all[Math.min(Math.max(to, 0), all.length - 1)];
  stop(next);
  next.focus();
});
addEventListener("focusin", (event) => { if (event.target.matches("#map a.cell")) stop(event.target); });
const filterCells = (some) => {
  const input = document.getElementById("filter");
  if (!input) return;
  const text = input.value.trim().toLowerCase();
  some.forEach((cell) => { cell.hidden = text !== "" && !cell.title.toLowerCase().includes(text); });
};
const showCells = () => {
  const all = document.querySelectorAll("#map a.cell");
  if (all.length === 0) return;
  const now = document.activeElement && document.activeElement.closest("#map a.cell");
  all.forEach((cell) => { cell.tabIndex = -1; });
  filterCells(all);
  stop(now || cells()[0]);
  const input = document.getElementById("filter");
  document.getElementById("filter-found").textContent = input.value === "" ? "" : cells().length + " of " + all.length + " nodes match";
};
addEventListener("input", (event) => { if (event.target.id === "filter") showCells(); });
addEventListener("htmx:oobAfterSwap", (event) => {
  const swapped = document.getElementById(event.detail.target.id);
  if (!swapped) return;
  if (swapped.matches("#map a.cell")) {
    filterCells([swapped]);
    if (swapped === document.activeElement || !document.querySelector('#map a.cell[tabindex="0"]:not([hidden])')) stop(swapped.hidden ? cells()[0] : swapped); else swapped.tabIndex = -1;
  } else if (swapped.closest("#map")) showCells();
});
showCells();

// Times. The server writes them in UTC; a reader wants to know how long ago, or the hour on her own clock.
const units = [[86400, "day"], [3600, "hour"], [60, "minute"]];
const since = (at) => {
  const s = Math.max(0, (Date.now() - at) / 1000);
  if (s < 60) return "just now";
  const [size, name] = units.find(([size]) => s >= size);
  const n = Math.floor(s / size);
  return n + " " + name + (n === 1 ? "" : "s") + " ago";
};
const showTimes = (root) => {
  root.querySelectorAll("time.ago").forEach((e) => { const text = since(Date.parse(e.dateTime)); if (e.textContent !== text) e.textContent = text; });
  root.querySelectorAll("time.clock").forEach((e) => { e.textContent = new Date(e.dateTime).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: e.matches(".fine") ? "2-digit" : undefined, hourCycle: "h23" }); });
};
setInterval(() => { if (!document.hidden) showTimes(document); }, 10000);

// Commands are copied with a button, which is of no use without this script.
document.documentElement.classList.add("js");
addEventListener("click", (event) => {
  const button = event.target.closest ? event.target.closest("button[data-copy]") : null;
  if (!button) return;
  const label = button.querySelector("span"), was = label ? label.textContent : "";
  // Without https, and not on this machine, a browser has no clipboard.
  const write = navigator.clipboard ? navigator.clipboard.writeText(button.dataset.copy) : Promise.reject();
  write.then(() => {
    button.dataset.done = "";
    if (label) label.textContent = "Copied";
    setTimeout(() => { delete button.dataset.done; if (label) label.textContent = was; }, 1500);
  }, () => { if (label) label.textContent = "Select the text and copy it"; });
});

// The title of the window counts what needs a person, so that a tab in the background shows it.
const title = document.title;
const showTitle = () => {
  const head = document.querySelector("h1[data-needs]");
  if (!head) return;
  document.title = (head.dataset.needs === "0" ? "" : "(" + head.dataset.needs + ") ") + title;
};

// The node under the pointer, or the one that the keyboard is at, is described beside the map.
const describe = (cell) => {
  const card = document.getElementById("pool-node-card");
  if (!card || !cell) return;
  const label = cell.title, at = label.indexOf(": "), name = label.slice(0, at);
  const make = (tag, text, parent) => { const e = document.createElement(tag); e.textContent = text; parent.append(e); return e; };
  card.replaceChildren();
  const head = make("h3", "", card);
  make("a", name, head).href = cell.getAttribute("href");
  make("p", label.slice(at + 2), card);
  const line = make("p", "", card), command = "bunsen why node/" + name;
  line.className = "command";
  make("code", command, line);
  const copy = make("button", "", line);
  copy.type = "button"; copy.className = "copy"; copy.dataset.copy = command;
  make("span", "Copy", copy);
  card.dataset.cell = cell.id;
};
const cellOf = (event) => event.target.closest ? event.target.closest("#map a.cell") : null;
addEventListener("focusin", (event) => describe(cellOf(event)));
addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") describe(cellOf(event)); });

// A finger cannot point without pressing. Its first tap on a cell describes the node, at the bottom of a small screen;
// the second one follows the link, and a tap beside both puts the description away. A live update may replace the cell
// under the finger, so it is known by its id.
let firstTap = "";
addEventListener("pointerdown", (event) => {
  const node = document.getElementById("pool-node"), cell = cellOf(event);
  firstTap = "";
  if (!node || event.pointerType !== "touch") return;
  if (!cell && !node.contains(event.target)) node.classList.remove("tapped");
  const known = node.matches(".tapped") && cell && document.getElementById("pool-node-card").dataset.cell === cell.id;
  if (cell && !known) firstTap = cell.id;
});
addEventListener("click", (event) => {
  const cell = cellOf(event);
  if (!cell || cell.id !== firstTap) return;
  event.preventDefault();
  describe(cell);
  document.getElementById("pool-node").classList.add("tapped");
  firstTap = "";
});

const shown = (root) => { showTimes(root); showTitle(); };
addEventListener("htmx:oobAfterSwap", (event) => {
  const swapped = document.getElementById(event.detail.target.id);
  if (!swapped) return;
  shown(swapped);
  const card = document.getElementById("pool-node-card");
  if (card && swapped.id === card.dataset.cell) describe(swapped);
});
shown(document);

// The key / goes to the search.
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
  const find = document.getElementById("find");
  if (!find) return;
  event.preventDefault();
  find.focus();
});
