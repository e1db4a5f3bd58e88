package plan_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/host/hosttest"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// TestKernelArgumentsOfAMachineThatOnlyAppends: the machine's own arguments stay, those that it has are not added, and
// a config that is in force has no steps.
func TestKernelArgumentsOfAMachineThatOnlyAppends(t *testing.T) {
	for _, c := range []struct{ says, own, from, to, step, next string }{
		{"an argument comes at the end", "quiet splash", "", "nosmt", "kargs +nosmt", "quiet splash nosmt"},
		{"what the machine has is not added", "quiet splash", "", "splash", "", "quiet splash"},
		{"nor in another order", "quiet splash", "", "splash quiet", "", "quiet splash"},
		{"what the machine has stays", "quiet splash", "quiet", "", "", "quiet splash"},
		{"what the config added goes", "quiet", "quiet nosmt", "", "kargs -nosmt", "quiet"},
		{"the first ones may be the machine's", "quiet splash", "", "quiet nosmt", "kargs +nosmt", "quiet splash nosmt"},
		{"the order of a config counts where it adds", "console=tty0", "", "console=ttyS0 console=tty0", "kargs +console=ttyS0 +console=tty0", "console=tty0 console=ttyS0 console=tty0"},
		{"a repetition is one", "quiet", "", "quiet quiet", "kargs +quiet", "quiet quiet"},
		{"a value that differs is another argument", "hugepages=4", "", "hugepages=8", "kargs +hugepages=8", "hugepages=4 hugepages=8"},
		{"a value with blanks that the machine has", `dyndbg="a b"`, "", `dyndbg="a b" nosmt`, "kargs +nosmt", `dyndbg="a b" nosmt`},
	} {
		t.Run(c.says, func(t *testing.T) {
			m := hosttest.NewMachine()
			m.FixKargs(c.own)
			from := plan.Config{Name: "a", Config: machineconfig.Config{KernelArguments: []string{c.from}}}
			to := plan.Config{Name: "b", Config: machineconfig.Config{KernelArguments: []string{c.to}}}
			apply := func(from, to plan.Config) (steps []string) {
				p, _ := planOn(t, m, from, to)
				if len(p.Refusals) > 0 {
					t.Fatal(p.Refusals)
				}
				for _, s := range p.Steps {
					if s.Verb != host.SetKargs {
						continue
					}
					steps = append(steps, s.String())
					for range 2 {
						if err := m.Host().OS.Stage(t.Context(), s); err != nil {
							t.Fatal(err)
						}
					}
				}
				return steps
			}
			next := func() string {
				is, err := m.Host().OS.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return strings.TrimPrefix(is.Next.Kargs, "root=/dev/sda1 ro ")
			}
			apply(plan.Config{}, from)
			before := next()
			if got := strings.Join(apply(from, to), "; "); got != c.step || next() != c.next {
				t.Errorf("the step is %q, and the next boot has %q; want %q and %q", got, next(), c.step, c.next)
			}
			if again := apply(to, to); len(again) > 0 {
				t.Errorf("it has drifted at once: %s", again)
			}
			if apply(to, from); next() != before {
				t.Errorf("back in the old config, it has %q, not %q", next(), before)
			}
		})
	}
}

// TestOddKernelArgumentsAreRefusedBeforeAnyStep, as the review says.
func TestOddKernelArgumentsAreRefusedBeforeAnyStep(t *testing.T) {
	odd := []string{`dyndbg="file a +p"`, "a=$(reboot)", "b`c`", "d;e"}
	to := machineconfig.Config{KernelArguments: append([]string{"nosmt"}, odd...)}
	m := hosttest.NewMachine()
	m.FixKargs("quiet")
	p, _ := planOn(t, m, plan.Config{Name: "a"}, plan.Config{Name: "b", Config: to})
	var said, foretold []string
	for _, r := range p.Refusals {
		said = append(said, r.Field)
	}
	for _, r := range disruption.CheckedOnNode(machineconfig.Config{}, to) {
		if r.Field != "kernelArguments" {
			foretold = append(foretold, r.Field)
		}
	}
	var want []string
	for _, a := range odd {
		want = append(want, "kernelArguments "+a)
	}
	if !slices.Equal(said, want) || !slices.Equal(foretold, want) {
		t.Errorf("the node refuses %q, and the review says %q; want %q", said, foretold, want)
	}
	if p, _ = planOn(t, hosttest.NewMachine(), plan.Config{Name: "a"}, plan.Config{Name: "b", Config: to}); len(
		p.Refusals) > 0 {
		t.Errorf("a machine with rpm-ostree refuses %v", p.Refusals)
	}
}
