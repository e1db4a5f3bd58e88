package browser

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", os.Getenv("BUNSEN_PICTURES"), "`folder` for pictures of the pages (default: none are kept)")

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
