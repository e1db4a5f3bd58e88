// The page says plainly when its stream of events is not connected.
addEventListener("htmx:sseError", () => { document.getElementById("connection").hidden = false; });
addEventListener("htmx:sseOpen", () => { document.getElementById("connection").hidden = true; });
// What the user unfolded stays unfolded when the region around it is replaced.
addEventListener("htmx:oobBeforeSwap", (event) => {
  const before = event.detail.target.querySelectorAll("details");
  event.detail.fragment.querySelectorAll("details").forEach((after, i) => { after.open = before[i] ? before[i].open : after.open; });
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
