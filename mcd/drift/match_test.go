package drift_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/drift"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"/etc/chrony.conf", "/etc/chrony.conf", true},
		{"/etc/chrony.conf", "/etc/chrony.conf.d", false},
		{"/etc/*.conf", "/etc/chrony.conf", true},
		{"/etc/*.conf", "/etc/chrony/chrony.conf", false},
		{"/etc/*", "/etc/.hidden", true},
		{"/etc/?.conf", "/etc/a.conf", true},
		{"/etc/?.conf", "/etc/ab.conf", false},
		{"/etc/?.conf", "/etc/ä.conf", true},
		{"/etc/**", "/etc/a/b/c", true},
		{"/etc/**", "/etc", true},
		{"/etc/**", "/etcetera", false},
		{"/etc/**/*.conf", "/etc/a.conf", true},
		{"/etc/**/*.conf", "/etc/a/b/c.conf", true},
		{"/etc/**/b/*.conf", "/etc/a/b/x/b/c.conf", true},
		{"/etc/**/b/*.conf", "/etc/a/c.conf", false},
		{"/**", "/anything/at/all", true},
		{"/**", "chronyd.service", false},
		{"**", "chronyd.service", true},
		{"**", "/etc/a", true},
		{"**", "user/core", true},
		{"/etc/[ab]", "/etc/a", false},
		{"/etc/[ab]", "/etc/[ab]", true},
		{"/etc/a**b", "/etc/axxb", true},
		{"chronyd.service", "chronyd.service", true},
		{"*.timer", "logrotate.timer", true},
		{"getty@*.service", "getty@tty1.service", true},
		{"user/*", "user/core", true},
		{"user/*", "group/core", false},
		{"os/*", "os/kernelArguments", true},
		{"*", "user/core", false},
		{"", "/etc", false},
	} {
		if got := drift.Match(c.pattern, c.name); got != c.want {
			t.Errorf("%q and %q: %t", c.pattern, c.name, got)
		}
	}
}

func TestAPatternOfManyStarsIsDecidedAtOnce(t *testing.T) {
	begin := time.Now()
	drift.Match("/"+strings.Repeat("**/", 300)+"z", "/"+strings.Repeat("a/", 1000)+"b")
	drift.Match("/"+strings.Repeat("*a", 500)+"z", "/"+strings.Repeat("a", 4000))
	if took := time.Since(begin); took > 5*time.Second {
		t.Error(took)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("/etc/**/*.conf", "/etc/a/b.conf")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		drift.Match(pattern, name)
		if !strings.ContainsAny(name, "*?") && !drift.Match(name, name) {
			t.Errorf("%q does not match itself", name)
		}
	})
}
