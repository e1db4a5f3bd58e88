package image

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/mcd/host"
)

func TestTheSmallestEditOfKernelArguments(t *testing.T) {
	for _, c := range []struct{ says, all, before, after, edit string }{
		{"nothing to do does nothing", "root=/dev/a rw quiet", "quiet", "quiet", ""},
		{"an argument that stands before others stays there", "quiet root=/dev/a rw", "quiet", "quiet debug", "+debug"},
		{"only what differs goes and comes", "root=/dev/a quiet hugepages=4 idle=poll", "quiet hugepages=4 idle=poll", "quiet hugepages=8", "-hugepages=4 -idle=poll +hugepages=8"},
		{"what is there already is not put there again", "root=/dev/a quiet", "", "quiet", ""},
		{"another order is one", "a=1 b=2", "a=1 b=2", "b=2 a=1", "-a=1 +a=1"},
		{"an argument in the middle takes what follows along", "a c", "a c", "a b c", "-c +b +c"},
		{"one of two equal ones goes", "quiet rw quiet", "quiet", "quiet", "-quiet"},
		{"two equal ones come", "rw", "", "console=ttyS0 console=ttyS0", "+console=ttyS0 +console=ttyS0"},
		{"of two equal ones in a row the last is kept", "x y x", "x y x", "y x", "-x"},
		{"others with the same key are nobody's", "console=tty0 console=ttyS0", "console=ttyS0", "console=ttyS1", "-console=ttyS0 +console=ttyS1"},
		{"a value with blanks is one argument", `dyndbg="file a +p" rw`, `dyndbg="file a +p"`, `dyndbg="file b +p"`, `-dyndbg="file a +p" +dyndbg="file b +p"`},
		{"all of it goes", "root=/dev/a quiet debug", "quiet debug", "", "-quiet -debug"},
	} {
		t.Run(c.says, func(t *testing.T) {
			del, add := kargsChange(c.all, c.before, c.after)
			var edit []string
			for _, a := range del {
				edit = append(edit, "-"+a)
			}
			for _, a := range add {
				edit = append(edit, "+"+a)
			}
			if got := strings.Join(edit, " "); got != c.edit {
				t.Errorf("got %s, want %s", got, c.edit)
			}
		})
	}
}

func TestTheEditGivesWhatIsWantedAndLeavesTheRest(t *testing.T) {
	words := []string{"quiet", "debug", "a=1", "a=2", "b", `c="x y"`}
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same cases each time
	some := func(n int) string {
		var list []string
		for range r.IntN(n) {
			list = append(list, words[r.IntN(len(words))])
		}
		return host.JoinArgs(list)
	}
	pick := func(list string, in bool, of ...string) []string {
		return slices.DeleteFunc(host.SplitArgs(list), func(a string) bool { return slices.Contains(of, a) != in })
	}
	for range 20000 {
		all, before, after := some(8), some(4), some(5)
		managed := append(host.SplitArgs(before), host.SplitArgs(after)...)
		got := editKargs(all, before, after)
		if is := pick(got, true, managed...); host.JoinArgs(is) != after {
			t.Fatalf("%q from %q to %q: the managed ones are %q", all, before, after, is)
		}
		if was, is := pick(all, false, managed...), pick(got, false, managed...); !slices.Equal(was, is) {
			t.Fatalf("%q from %q to %q: the others were %q and are %q", all, before, after, was, is)
		}
		if del, add := kargsChange(got, before, after); len(del)+len(add) > 0 {
			t.Fatalf("%q from %q to %q: doing it twice still does %q %q", all, before, after, del, add)
		}
		del, add := kargsChange(all, before, after)
		if len(add) > len(host.SplitArgs(after)) || len(del) > len(host.SplitArgs(all)) {
			t.Fatalf("%q from %q to %q: too much: %q %q", all, before, after, del, add)
		}
	}
}
