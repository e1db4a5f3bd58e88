package inspect_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/inspect"
)

// TestWidths: how many columns texts take, and what is left of them.
func TestWidths(t *testing.T) {
	for _, tc := range []struct {
		sentence, text string
		width          int
		want           string
	}{
		{"what fits stays", "abc", 3, "abc"},
		{"what does not is cut, and shows it", "abcd", 3, "ab…"},
		{"one column is an ellipsis", "abcd", 1, "…"},
		{"no column is nothing", "abcd", 0, ""},
		{"an ideograph takes two columns", "節点節点", 5, "節点…"},
		{"and is not cut in half", "節点節点", 4, "節…"},
		{"what stands above a letter takes none", "e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"},
		{"what commands a terminal is not sent to it", "\x1b[2Jx", 9, `\x1b[2Jx`},
		{"nor what turns its text around", "a\u202eb", 9, `a\u202eb`},
		{"a line is one line", "a\nb", 9, "a b"},
	} {
		t.Run(tc.sentence, func(t *testing.T) {
			got := inspect.Line{{Text: tc.text}}.Cut(tc.width, false)
			if got != tc.want {
				t.Errorf("%q cut to %d is %q, want %q", tc.text, tc.width, got, tc.want)
			}
		})
	}
}

var escape = regexp.MustCompile("\x1b\\[[0-9;]*m")

// FuzzCut: whatever the texts are, a line is never wider than asked for, has no more than colours that command a terminal,
// and begins with what it was made of.
func FuzzCut(f *testing.F) {
	f.Add("POOL worker", "節点 e\u0301 \x1b[2J", 7, true)
	f.Add("", "a\nb\t\u202e", 3, false)
	f.Add("ab", "cd", 4, true)
	f.Fuzz(func(t *testing.T, a, b string, width int, colour bool) {
		width = min(width, 500)
		line := inspect.Line{{Text: a, Style: inspect.Head}, {Text: b, Style: inspect.Bad}}
		got := line.Cut(width, colour)
		plain := escape.ReplaceAllString(got, "")
		if w := inspect.Width(plain); w > max(width, 0) {
			t.Errorf("%q is %d columns wide, at most %d may be", plain, w, width)
		}
		if strings.ContainsAny(plain, "\x1b\n\r\x07") || !colour && got != plain {
			t.Errorf("%q commands the terminal", got)
		}
		whole := inspect.Line{{Text: a}, {Text: b}}.Cut(1<<30, false)
		if kept := strings.TrimSuffix(plain, "…"); !strings.HasPrefix(whole, kept) {
			t.Errorf("%q is no beginning of %q", plain, whole)
		}
		if inspect.Width(whole) <= width && plain != whole {
			t.Errorf("%q fits into %d columns, and is cut to %q", whole, width, plain)
		}
		if utf8.ValidString(a+b) && !utf8.ValidString(got) {
			t.Errorf("%q is no text any more", got)
		}
	})
}

// TestWrapping breaks between words only.
func TestWrapping(t *testing.T) {
	for text, want := range map[string]string{"a bc def": "a bc|def", "": "", "unbreakable a": "unbreakable|a", " a  b\nc ": "a b|c"} {
		if got := strings.Join(inspect.Wrap(text, 4), "|"); got != want {
			t.Errorf("%q is broken into %q, want %q", text, got, want)
		}
	}
}

// fleetOf is a pool of so many nodes, some of them at work, in a cluster with a policy.
func fleetOf(size int) inspect.Cluster {
	const was, is = "rendered-worker-11111111111111111111111111111111", "rendered-worker-22222222222222222222222222222222"
	pool := mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	pool.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}
	pool.Spec.Configuration.Name = is
	policy := v1alpha1.RolloutPolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}}
	policy.Spec.MaxUnavailable = new(intstr.FromString("10%"))
	policy.Spec.Batches = []v1alpha1.RolloutBatch{{UpTo: intstr.FromString("50%")}}
	c := inspect.Cluster{Pools: []mcfgv1.MachineConfigPool{pool}, Policies: []v1alpha1.RolloutPolicy{policy}}
	for i := range size {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i), Labels: map[string]string{"role": "worker"}}}
		current, desired, state := was, was, v1alpha1.StateDone
		switch {
		case i%3 == 0:
			current, desired = is, is
		case i%50 == 1:
			desired, state = is, v1alpha1.StateWorking
		case i%7 == 5:
			desired, state = is, v1alpha1.StateDegraded
		}
		n.Annotations = map[string]string{v1alpha1.CurrentConfigAnnotation: current, v1alpha1.DesiredConfigAnnotation: desired, v1alpha1.StateAnnotation: state}
		if state == v1alpha1.StateDegraded {
			n.Annotations[v1alpha1.ReasonAnnotation] = "updating to " + is + ": writing /etc/chrony/sources.d/site.sources: no space left on device\nMain PID: 1"
		}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

// TestAScreenFitsAnyTerminal: it has no more lines than the terminal, and none is wider.
func TestAScreenFitsAnyTerminal(t *testing.T) {
	for _, nodes := range []int{0, 1, 7, 500} {
		s := inspect.NewStatus(fleetOf(nodes), noon)
		for width := 1; width < 140; width += 7 {
			for height := 1; height < 60; height += 3 {
				lines := s.Screen(inspect.Size{Width: width, Height: height}, noon)
				if len(lines) > height {
					t.Fatalf("%d nodes: %d lines on a terminal of %d", nodes, len(lines), height)
				}
				for _, l := range lines {
					if w := inspect.Width(escape.ReplaceAllString(l.Cut(width, true), "")); w > width {
						t.Fatalf("%d nodes: a line of %d columns on a terminal of %d", nodes, w, width)
					}
				}
			}
		}
	}
}

// TestChanges: what is told of a status after another one.
func TestChanges(t *testing.T) {
	before := inspect.NewStatus(fleetOf(4), noon)
	c := fleetOf(4)
	if later := inspect.NewStatus(c, noon.Add(time.Hour)); len(later.Changes(&before)) > 0 {
		t.Errorf("nothing changed but the time, and it tells %q", later.Changes(&before))
	}
	c.Nodes = c.Nodes[:3]
	c.Nodes[1].Annotations[v1alpha1.StateAnnotation], c.Nodes[1].Annotations[v1alpha1.ReasonAnnotation] = v1alpha1.StateDegraded, "no space"
	text := strings.Join(inspect.NewStatus(c, noon).Changes(&before), "\n")
	for _, want := range []string{"pool/worker ", "1 failed", "node/node-00001 failed ", ": no space", "node/node-00003 is gone"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "node-00000") {
		t.Errorf("a node is told that did not change:\n%s", text)
	}
}

// BenchmarkStatus is the cost of one look at a large cluster.
func BenchmarkStatus(b *testing.B) {
	c := fleetOf(5000)
	for b.Loop() {
		inspect.NewStatus(c, noon).Screen(inspect.Size{Width: 120, Height: 50}, noon)
	}
}

// TestAScreenTellsAFailureWhole where there are lines to spare.
func TestAScreenTellsAFailureWhole(t *testing.T) {
	var b strings.Builder
	for _, l := range inspect.NewStatus(fleetOf(7), noon).Screen(inspect.Size{Width: 80, Height: 40}, noon) {
		b.WriteString(l.Cut(80, false) + " ")
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"writing /etc/chrony/sources.d/site.sources: no space left on device", "to do bunsen why pool/worker"} {
		if !strings.Contains(text, want) {
			t.Errorf("want %q in\n%s", want, text)
		}
	}
}
