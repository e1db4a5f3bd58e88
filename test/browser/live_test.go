package browser

import (
	"fmt"
	"testing"
	"time"
)

func (w *world) eachPoolGetsItsFirstConfig(t *testing.T) {
	b := w.signedIn(t, "/")
	for _, pool := range []string{"worker", "edge", "gpu", "storage"} {
		b.until(fmt.Sprintf(`document.querySelector("#pool-%s.Fine") !== null`, pool))
	}
}

// aPushMovesCellsWithoutAReload: the page of the pool stays the same document from the push to the last node.
func (w *world) aPushMovesCellsWithoutAReload(t *testing.T) {
	b := w.signedIn(t, "/pool/worker")
	b.until(`document.querySelectorAll("#map a.cell.updated").length === 18`)
	eval[bool](b, `window.same = true; window.seen = new Set();
		new MutationObserver(() => document.querySelectorAll("#map a.cell").forEach((c) => seen.add(c.className))).observe(document.body, {subtree: true, childList: true, attributes: true}); true`)
	commit, begun := w.push(t, "Forward packets on every worker",
		map[string]string{"pools/worker/20-forward.bu": file("/etc/sysctl.d/90-forward.conf",
			"net.ipv4.ip_forward = 1")}), time.Now()
	b.until(`document.querySelectorAll("#map a.cell.updated").length < 18`)
	t.Logf("%s after the push, the first cell has moved", time.Since(begun).Round(10*time.Millisecond))
	b.shows("#pool-progress", commit)
	b.until(`(n => n >= 9 && n <= 16)(document.querySelectorAll("#map a.cell.updated").length)`)
	if *readme != "" {
		b.until(`document.querySelectorAll("#map a.cell.updated").length > 6 && document.querySelector("#map a.cell.rebooting") !== null`)
		b.keepReadme("console", "#pool-timeline")
	}
	w.pictures.keep(b, "pool-moving")
	b.until(`document.querySelectorAll("#map a.cell.updated").length === 18`)
	t.Logf("%s after the push, all 18 nodes are updated", time.Since(begun).Round(10*time.Millisecond))
	b.shows("#pool-history", commit)
	if !eval[bool](b, `window.same === true`) {
		t.Error("the page was loaded again")
	}
	t.Log(eval[string](b, `Array.from(seen).join(", ")`))
}

// file returns a Butane document with one file.
func file(path, content string) string {
	return fmt.Sprintf("variant: fcos\nversion: 1.6.0\nstorage:\n  files:\n    - path: %q\n      mode: 0644\n"+
		"      contents:\n        inline: %q\n", path, content+"\n")
}
