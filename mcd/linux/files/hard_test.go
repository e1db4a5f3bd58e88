package files

import (
	"path/filepath"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

func TestAHardLinkIsAFurtherNameOfItsFile(t *testing.T) {
	h, dir := rootHost(t)
	same := func(a, b string, want bool) {
		t.Helper()
		if is, err := h.Same(a, b); err != nil || is != want {
			t.Errorf("%s and %s are the same: %t, %v", a, b, is, err)
		}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	hard := host.Entry{Kind: host.Hard, Target: "/file"}
	ok(h.Files.Write("/file", host.Entry{Mode: 0o640}, []byte("one")))
	ok(h.Files.Write("/name", host.Entry{Mode: 0o600}, []byte("other")))
	same("/name", "/file", false)
	same("/name", "/absent", false)
	for range 2 { // what is there already is no error
		ok(h.Files.Link("/name", hard))
		same("/name", "/file", true)
	}
	if is, err := h.Files.Stat("/name"); err != nil || is.Kind != host.File || is.Mode != 0o640 {
		t.Errorf("it is %v, %v", is, err)
	}
	ok(h.Files.Write("/file", host.Entry{Mode: 0o640}, []byte("two")))
	same("/name", "/file", false)
	ok(h.Files.Link("/name", hard))
	if text, err := h.Files.Read("/name"); err != nil || string(text) != "two" {
		t.Errorf("it has %q, %v", text, err)
	}
	ok(h.Files.Link("/link", host.Entry{Target: "nowhere"}))
	ok(h.Files.Link("/name", host.Entry{Kind: host.Hard, Target: "/link"}))
	same("/name", "/link", true)
	if err := h.Files.Link("/name", host.Entry{Kind: host.Hard, Target: "/absent"}); err == nil {
		t.Error("a name for nothing was made")
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*"+host.NewSuffix))
	if err != nil || len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}
