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
	readme = flag.String("readme", "", "`folder` for the pictures of README.md and the documentation: the overview in "+
		"trouble, a pool during a rollout, and a commit (default: they stay as they are)")
)

// mostReadme limits each picture of the documentation, in bytes.
const mostReadme = 150_000

// keepReadme writes a page as a picture of the documentation, narrow enough for a telephone, down to the end of an
// element.
func (b *tab) keepReadme(name, last string) {
	b.t.Helper()
	if *readme == "" {
		return
	}
	const width = 1040
	b.resize(width, 900) // The width decides how high the page is.
	b.resize(width, eval[int64](b,
		`Math.round(document.querySelector("`+last+`").getBoundingClientRect().bottom + scrollY) + 24`))
	path := filepath.Join(*readme, name+".png")
	b.write(path, chromedp.CaptureScreenshot())
	b.resize(1280, 900)
	if info, err := os.Stat(path); err != nil || info.Size() > mostReadme {
		b.t.Errorf("the picture %s has more than %d bytes, or is missing: %v", path, mostReadme, err)
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
