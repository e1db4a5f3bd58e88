package mcs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const media = "application/vnd.coreos.ignition+json"

func TestTheAcceptHeaderDecidesTheVersion(t *testing.T) {
	for _, c := range []struct {
		because, accept string
		want            Version
	}{
		{"no header: the newest", "", V3_5},
		{"anything goes: the newest", "*/*", V3_5},
		{"another type: the newest", "application/json", V3_5},
		{"Ignition without a version: the newest", media, V3_5},
		{"version 2 from 2.2 on is 2.2.0", media + ";version=2.2.0", V2_2},
		{"version 2 from 2.2 on is 2.2.0", media + ";version=2.4.0", V2_2},
		{"version 2 from 2.2 on is 2.2.0", media + ";version=2.9.9", V2_2},
		{"what Ignition 0.35 sends", media + "; version=2.4.0, application/vnd.coreos.ignition+json; version=1; q=0.5, */*; q=0.1", V2_2},
		{"each version is served as asked", media + ";version=3.0.0", V3_0},
		{"each version is served as asked", media + ";version=3.1.0", V3_1},
		{"each version is served as asked", media + ";version=3.2.0", V3_2},
		{"each version is served as asked", media + ";version=3.3.0", V3_3},
		{"each version is served as asked", media + ";version=3.4.0", V3_4},
		{"each version is served as asked", media + ";version=3.5.0", V3_5},
		{"the patch number does not matter", media + ";version=3.2.7", V3_2},
		{"a pre-release is its release", media + ";version=3.4.0-experimental", V3_4},
		{"a later 3.x reads all earlier ones", media + ";version=3.6.0", V3_5},
		{"a later 3.x reads all earlier ones", media + ";version=3.60.0", V3_5},
		{"what Ignition 2.27 sends", media + ";version=3.6.0, */*;q=0.1", V3_5},
		{"what Ignition 2.14 sends", media + ";version=3.3.0, */*;q=0.1", V3_3},
		{"a version that is no version counts for nothing", media + ";version=abc", V3_5},
		{"two numbers are no version", media + ";version=3.1", V3_5},
		{"a quoted version is no version", media + `;version="3.3.0"`, V3_5},
		{"the next entry counts when the first has no version", media + ";version=abc, " + media + ";version=3.2.0", V3_2},
		{"the highest q wins", media + ";version=3.2.0;q=0.5, " + media + ";version=3.4.0;q=0.9", V3_4},
		{"equal q: the first wins", media + ";version=3.3.0;q=0.5, " + media + ";version=3.4.0;q=0.5", V3_3},
		{"a bad q counts as 1", media + ";version=3.2.0;q=x, " + media + ";version=3.4.0;q=0.9", V3_2},
		{"q is a number from 0 to 1", media + ";version=3.2.0;q=NaN, " + media + ";version=3.4.0;q=0.9", V3_2},
		{"parameters come in any order", media + ";q=0.4;version=3.2.0", V3_2},
		{"blanks do not matter", " " + media + " ; version = 3.2.0 ", V3_2},
		{"the main type does not matter", "text/vnd.coreos.ignition+json;version=3.3.0", V3_3},
		{"parameters have lower case", media + ";Version=3.2.0", V3_5},
		{"another type's version does not matter", "application/json;version=2.0.0", V3_5},
	} {
		if got, err := Negotiate(c.accept); got != c.want || err != nil {
			t.Errorf("%s: %q gives %q, %v; want %q", c.because, c.accept, got, err, c.want)
		}
	}
}

func TestAVersionThatIsNotServedIsRefusedWithThoseThatAre(t *testing.T) {
	for _, asked := range []string{"2.1.0", "2.0.0", "2.10.0", "1.0.0", "4.0.0", "0.1.0"} {
		_, err := Negotiate(media + ";version=" + asked + ", " + media + ";version=3.4.0;q=0.9")
		var refused *UnsupportedVersionError
		if !errors.As(err, &refused) || refused.Asked != asked {
			t.Errorf("%s: got %v", asked, err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, `"`+asked+`"`) ||
			!strings.Contains(text, "2.2.0, 3.0.0, 3.1.0, 3.2.0, 3.3.0, 3.4.0, 3.5.0") {
			t.Errorf("%s: the message does not help: %s", asked, text)
		}
	}
}

func FuzzNegotiate(f *testing.F) {
	for _, seed := range []string{
		"", "*/*;q=0.1", media + ";version=3.2.0;q=0.5, " + media +
			";version=9223372036854775807.9223372036854775807.1",
		media + ";version=3.-1.0", ",;=/", "a/b;q", media + ";version=3.99999999999999999999.0",
		media + ";;;q==1;version=3.1.0",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		version, err := Negotiate(accept)
		var refused *UnsupportedVersionError
		switch {
		case err == nil && !slices.Contains(Versions(), version):
			t.Errorf("%q is answered with %q, which is no version", accept, version)
		case err != nil && (!errors.As(err, &refused) || version != ""):
			t.Errorf("%q gives %q and %v", accept, version, err)
		}
		if again, err2 := Negotiate(accept); again != version || (err == nil) != (err2 == nil) {
			t.Errorf("%q gives %q, then %q", accept, version, again)
		}
	})
}
