package once_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/apply"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/linux"
	"github.com/bunsen-os/bunsen/mcd/once"
)

// ofUnits is what a machine may have of units, of which each machine has some. A path that a line before it needs
// stands in the same text.
var ofUnits = []string{
	"/usr/lib/systemd/system/a.service = " + install,
	"/usr/lib/systemd/system/b.service = [Service]\n",
	"/usr/lib/systemd/system/c.service = [Install]\nWantedBy=c.target\nAlias=d.service\n",
	"/usr/lib/systemd/system/t@.service = " + install,
	"/usr/lib/systemd/system/e.service -> c.service",
	"/usr/lib/systemd/system/c.service.d/v.conf = [Install]\nWantedBy=v.target\n",
	"/etc/systemd/system/a.service -> ../../../dev/null",
	"/etc/systemd/system/b.service = [Install]\nWantedBy=own.target\n",
	"/etc/systemd/system/c.service.d/h.conf = [Install]\nWantedBy=\n",
	"/etc/systemd/system/own.target.wants/a.service -> /usr/lib/systemd/system/a.service",
	"/etc/systemd/system/c.target.wants/c.service -> /usr/lib/systemd/system/c.service",
	"/etc/systemd/system/x.target.requires/t@i.service -> /usr/lib/systemd/system/t@.service",
	"/run/systemd/system/t@.service -> /dev/null",
	"/usr/lib/systemd/system-preset/50-x.preset = enable a.service\nenable t@.service\n",
}

// randomUnits makes a config of units, and of links that enable units.
func randomUnits(r *rand.Rand) (lines []string) {
	for _, name := range []string{"a", "b", "c", "e", "t@i"} {
		if r.IntN(2) == 0 {
			continue
		}
		settings := fmt.Sprintf(`{"name":"%s.service"`, name)
		switch r.IntN(4) {
		case 0, 1:
			settings += `,"enabled":true`
		case 2:
			settings += `,"enabled":false`
		}
		if name == "e" { // the image's other name of c
			lines = append(lines, settings+"}")
			continue
		}
		settings += []string{"", "", "", `,"mask":true`}[r.IntN(4)]
		settings += []string{
			"", "", `,"contents":"[Service]\nNice=1\n[Install]\nWantedBy=config.target\n"`,
			`,"contents":"[Service]\n"`,
		}[r.IntN(4)]
		if r.IntN(4) == 0 {
			settings += `,"dropins":[{"name":"x.conf","contents":"` +
				[]string{`[Unit]\n`, `[Install]\nWantedBy=dropin.target\n`}[r.IntN(2)] + `"}]`
		}
		lines = append(lines, settings+"}")
	}
	for _, link := range []string{
		"/etc/systemd/system/more.target.wants/b.service -> ../b.service",
		"/etc/systemd/system/link.target.wants/b.service -> /usr/lib/systemd/system/b.service",
		"/etc/systemd/system/link.target.requires/b.service -> ../b.service",
	} {
		if r.IntN(3) == 0 {
			lines = append(lines, link)
		}
	}
	return lines
}

// TestUnitsGoWhereRandomConfigsSay walks through random configs of units on random machines, which nobody changes
// meanwhile. A machine takes a config and has nothing left to do, or refuses it; in the end it is as it was.
func TestUnitsGoWhereRandomConfigsSay(t *testing.T) {
	done, refused := 0, 0
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 40))
		dir := hosttest.TempDir(t)
		h, root, err := linux.OpenSimulated(dir, func(string) {})
		if err != nil {
			t.Fatal(err)
		}
		var machine, story []string
		for _, line := range ofUnits {
			if r.IntN(3) > 0 || strings.HasPrefix(line, "/usr/lib/systemd/system/c.service ") {
				machine = append(machine, line)
			}
		}
		has(t, dir, machine)
		before := withoutWants(listed(t, dir)) + enabledIn(t, h)
		for step := range 5 {
			var lines []string
			if step < 4 {
				lines = randomUnits(r)
			}
			story = append(story, strings.Join(lines, "\n  "))
			told := func() string {
				return fmt.Sprintf("seed %d, on\n  %s\nto\n  %s", seed, strings.Join(machine, "\n  "),
					strings.Join(story, "\nto\n  "))
			}
			was := listed(t, dir)
			var plan once.Plan
			ask := once.Request{To: configOf(t, lines), SkipReboot: true}
			done1, err := once.Run(t.Context(), apply.Runner{Host: h}, ask, false, func(p once.Plan) { plan = p })
			if errors.Is(err, apply.ErrRefused) && step < 4 {
				if listed(t, dir) != was {
					t.Fatalf("%s\nit is refused, and something changed: %v", told(), err)
				}
				story, refused = story[:len(story)-1], refused+1
				continue
			}
			if err != nil || done1.Why != nil {
				t.Fatalf("%s\n%v, %+v\n%s\n%s", told(), err, done1.Applied, plan, was)
			}
			done++
			if again, err := once.NewPlan(t.Context(), h, ask); err != nil || !again.Empty() {
				t.Fatalf("%s\nafter\n%s%v is left to do:\n%s", told(), plan, err, again)
			}
		}
		if diff := differing(before, withoutWants(listed(t, dir))+enabledIn(t, h), nil); diff != "" {
			t.Fatalf("seed %d, on\n  %s\nto\n  %s\nin the end the machine differs:\n%s", seed,
				strings.Join(machine, "\n  "), strings.Join(story, "\nto\n  "), diff)
		}
		root.Close()
	}
	t.Logf("%d updates, %d refusals", done, refused)
}

// withoutWants leaves out the links that enable units: the daemon makes those of [Install] again, and not what somebody
// linked otherwise.
func withoutWants(list string) string {
	var kept []string
	for line := range strings.Lines(list) {
		alias := strings.HasPrefix(line, "/etc/systemd/system/d.service ")
		if !strings.Contains(line, ".wants") && !strings.Contains(line, ".requires") && !alias {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// enabledIn lists the units that are enabled, and could be enabled again.
func enabledIn(t *testing.T, h host.Host) (list string) {
	t.Helper()
	for _, name := range []string{"a.service", "b.service", "c.service", "t@i.service"} {
		u, err := h.Units.Status(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if u.Obstacle.Why == "" {
			list += fmt.Sprintf("%s is enabled: %t\n", name, u.Enabled)
		}
	}
	return list
}
