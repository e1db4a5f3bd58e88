// The page says plainly when its stream of events is not connected.
addEventListener("htmx:sseError", () => { document.getElementById("connection").hidden = false; });
addEventListener("htmx:sseOpen", () => { document.getElementById("connection").hidden = true; });
