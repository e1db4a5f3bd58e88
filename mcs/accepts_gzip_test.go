package mcs

import "testing"

func TestGzipIsForWhoAsksForIt(t *testing.T) {
	for _, c := range []struct {
		because, accept string
		want            bool
	}{
		{"no header", "", false},
		{"what Ignition sends", "identity", false},
		{"what Go's clients send", "gzip", true},
		{"what curl --compressed sends", "deflate, gzip, br, zstd", true},
		{"any order, any case, blanks", " br ;q=1 , GZip ; Q=0.5 ", true},
		{"the old name", "x-gzip", true},
		{"gzip is refused", "gzip;q=0", false},
		{"gzip is refused, in more digits", "gzip;q=0.000, *", false},
		{"the text is more welcome", "gzip;q=0.5, identity", false},
		{"the text is less welcome", "gzip;q=1.0, identity;q=0.5", true},
		{"both are as welcome", "identity, gzip", true},
		{"anything: what it did not name may be what it cannot read", "*", false},
		{"anything but the text", "identity;q=0, *", true},
		{"nothing but what is not here", "identity;q=0, br", false},
		{"nothing that is not named", "gzip, *;q=0", true},
		{"nothing at all", "*;q=0", false},
		{"no number", "gzip;q=x", false},
		{"more than 1", "gzip;q=2", false},
		{"less than 0", "gzip;q=-1", false},
		{"not a number", "gzip;q=NaN", false},
		{"a parameter that no coding has", "gzip;level=9", false},
		{"what is no entry counts for nothing, what is one counts", ";;=,gzip;q=x,gzip", true},
		{"a coding that only begins so", "gzipped", false},
	} {
		if got := AcceptsGzip(c.accept); got != c.want {
			t.Errorf("%s: %q gives %t", c.because, c.accept, got)
		}
	}
}

func FuzzEncodings(f *testing.F) {
	for _, seed := range []string{"", "gzip", "*;q=0", "identity;q=0,gzip;q=0.001", "gzip;q=1;q=0"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, accept string) {
		if AcceptsGzip(accept+",gzip;q=0,x-gzip;q=0,*;q=0") && !AcceptsGzip(accept) {
			t.Errorf("%q: refusing gzip makes it welcome", accept)
		}
		if !AcceptsGzip("identity;q=0,gzip," + accept) {
			t.Errorf("%q: gzip is most welcome and the text is not, and it is not zipped", "identity;q=0,gzip,"+accept)
		}
	})
}
