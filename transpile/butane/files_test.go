package butane

import (
	"testing"

	baseutil "github.com/coreos/butane/base/util"
)

// The bytes of a data URL are part of a rendered config's name: they may never differ from Butane's.
func FuzzDataURL(f *testing.F) {
	for _, contents := range []string{"", "a", "plain text\n", "%20 ~!*'()", "\x00\x01\x02\x03\x04\x05\x06\x07", "\xff", "äöü", "===&&&"} {
		f.Add(contents)
	}
	f.Fuzz(func(t *testing.T, contents string) {
		want, _, err := baseutil.MakeDataURL([]byte(contents), nil, false)
		if err != nil {
			t.Fatal(err)
		}
		if got := dataURL(contents); got != want {
			t.Errorf("%q: %s, and Butane writes %s", contents, got, want)
		}
	})
}
