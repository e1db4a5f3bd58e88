// The page says plainly when its stream of events is not connected.
addEventListener("htmx:sseError", () => { document.getElementById("connection").hidden = false; });
addEventListener("htmx:sseOpen", () => { document.getElementById("connection").hidden = true; });
// What the user unfolded stays unfolded when the region around it is replaced.
addEventListener("htmx:oobBeforeSwap", (event) => {
  const before = event.detail.target.querySelectorAll("details");
  event.detail.fragment.querySelectorAll("details").forEach((after, i) => { after.open = before[i] ? before[i].open : after.open; });
});
