package browser

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var (
	pictures = flag.String("pictures", os.Getenv("BUNSEN_PICTURES"), "`folder` for pictures of the pages (default: "+
		"none are kept)")
	readme = flag.String("readme", "", "`file` for the picture of README.md: the page of a pool during a rollout "+
		"(default: it stays as it is)")
)

// mostReadme limits the picture of README.md.
const mostReadme = 150_000

// keepReadme writes the page of a pool, without its history, as the picture of README.md.
func (b *tab) keepReadme() {
	b.t.Helper()
	if *readme == "" {
		return
	}
	b.until(`document.querySelectorAll("#map a.cell.updated").length > 6 && document.querySelector("#map a.cell.rebooting") !== null`)
	b.resize(1100, 900) // The width decides how high the page is.
	b.resize(1100,
		eval[int64](b,
			`Math.round(document.querySelector("#pool-timeline figure").getBoundingClientRect().bottom + scrollY) + 24`))
	b.write(*readme, chromedp.CaptureScreenshot())
	b.resize(1280, 900)
	if info, err := os.Stat(*readme); err != nil || info.Size() > mostReadme {
		b.t.Errorf("the picture of README.md has more than %d bytes, or is missing: %v", mostReadme, err)
	}
}

// album keeps pictures of pages.
type album struct{ dir string }

func newAlbum(t *testing.T) *album {
	t.Helper()
	if *pictures == "" {
		return &album{}
	}
	dir, err := filepath.Abs(*pictures)
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &album{dir}
}

// keep writes a picture of what a tab shows.
func (a *album) keep(b *tab, name string) {
	b.t.Helper()
	if a.dir == "" {
		return
	}
	b.picture(filepath.Join(a.dir, name+".png"))
}

// picture writes a picture of the whole page.
func (b *tab) picture(path string) {
	b.t.Helper()
	b.write(path, chromedp.FullScreenshot(100))
}

func (b *tab) write(path string, take chromedp.Action[[]byte]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	raw, err := chromedp.Run(ctx, take)
	if err == nil {
		err = os.WriteFile(path, raw, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}
