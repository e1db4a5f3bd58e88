package reconcile_test

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controllertest"
	"github.com/bunsen-os/bunsen/test/lostanswer"
)

// lostWrites is how many of a rollout's writes lose their answers in turn, each in a rollout of its own; 0 for all.
var lostWrites = flag.Int("lost-writes", 8, "writes of a rollout whose answers are lost, in turn; 0 for all")

// loser loses the answer to one write of each rollout.
type loser struct {
	mu sync.Mutex
	// at is the number of the write to lose, counted from the begin of the rollout; n counts. lost is the lost write.
	at, n int
	lost  lostanswer.Write
}

// lose hangs up, or times out, by turns. It leaves Leases alone, which are written all the time.
func (l *loser) lose(w lostanswer.Write) lostanswer.Loss {
	if strings.Contains(w.Path, "/leases") {
		return lostanswer.Nothing
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n++; l.n != l.at {
		return lostanswer.Nothing
	}
	l.lost = w
	if l.at%2 == 0 {
		return lostanswer.TimeOut
	}
	return lostanswer.HangUp
}

// begin begins a rollout whose write number at gets no answer, and returns how many writes the last rollout had.
func (l *loser) begin(at int) (writes int, lost lostanswer.Write) {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes, lost = l.n, l.lost
	l.at, l.n, l.lost = at, 0, lostanswer.Write{}
	return writes, lost
}

// TestAControllerWhoseWritesGetNoAnswerRollsOutOnce rolls out one commit after the other, and loses the answer to
// another write to the real API server each time: of the source, the configs, the pools, the assignments and the
// drains. Each node is assigned each config once and drained once, one node at a time, and no commit is taken back.
func TestAControllerWhoseWritesGetNoAnswerRollsOutOnce(t *testing.T) {
	t.Parallel() // it waits for retries
	losing := &loser{}
	s := newStageBehind(t, func(rc *rest.Config) *rest.Config { return lostanswer.NewAPI(t, rc, losing.lose) })
	s.create(&v1alpha1.GitSource{
		ObjectMeta: metav1.ObjectMeta{Name: "os"},
		Spec: v1alpha1.GitSourceSpec{
			URL: "https://git.example.com/os", Interval: metav1.Duration{Duration: time.Hour},
		},
	})
	names := []string{"n0", "n1"}
	for _, name := range names {
		s.newNode(name)
	}
	log := newAssignments(s, names)
	rollOut := func(i int) {
		text := fmt.Sprintf("hello %d", i)
		s.push(text, "worker/10-motd.bu="+text, "master/10-motd.bu=hello", clusterFiles, workerPool)
		s.eventually("rolling out "+text, func() error { return log.finishAll(i) })
	}
	rollOut(0)
	losing.begin(0)
	rollOut(1)
	writes, _ := losing.begin(0)
	step := 1
	if *lostWrites > 0 {
		step = max(1, writes / *lostWrites)
	}
	rollouts := 0
	for at := 1; at <= writes; at += step {
		losing.begin(at)
		rollOut(2 + rollouts)
		rollouts++
		_, lost := losing.begin(0)
		t.Logf("rollout %d: no answer to write %d, %s %s", rollouts, at, lost.Method, lost.Path)
		log.check(2 + rollouts)
	}
	t.Logf("a rollout has %d writes", writes)
	if lines := s.log.forbidden(); lines != "" {
		t.Errorf("config/rbac lacks rights:\n%s", lines)
	}
}

// assignments play the daemons of nodes, and record which configs and drains the nodes got.
type assignments struct {
	s     *stage
	names []string
	// configs and drains are those of each node in order, without repetitions.
	configs, drains map[string][]string
}

func newAssignments(s *stage, names []string) *assignments {
	return &assignments{s, names, map[string][]string{}, map[string][]string{}}
}

// note records a value that differs from the last one.
func note(all map[string][]string, node, value string) {
	if list := all[node]; value != "" && (len(list) == 0 || list[len(list)-1] != value) {
		all[node] = append(list, value)
	}
}

// finishAll plays the daemons until each node runs the config of its pool, in service. It returns what is missing.
func (l *assignments) finishAll(rollout int) error {
	pool := &mcfgv1.MachineConfigPool{}
	if err := l.s.get("worker", pool); err != nil {
		return err
	}
	target, missing := pool.Spec.Configuration.Name, error(nil)
	for _, name := range l.names {
		n := &corev1.Node{}
		if err := l.s.get(name, n); err != nil {
			return err
		}
		a := n.Annotations
		want := a[v1alpha1.DesiredConfigAnnotation]
		note(l.configs, name, want)
		note(l.drains, name, a[v1alpha1.LastAppliedDrainAnnotation])
		if err := l.play(n, want); err != nil {
			return err
		}
		if want == "" || want != target || a[v1alpha1.CurrentConfigAnnotation] != want || n.Spec.Unschedulable ||
			len(l.configs[name]) != rollout+1 {
			missing = fmt.Errorf("%s wants %s and runs %s, of %s; it had %d configs", name, want,
				a[v1alpha1.CurrentConfigAnnotation], target, len(l.configs[name]))
		}
	}
	return missing
}

// play does the next step of a node's daemon: it requests the drain, ends the update, or requests the uncordon.
func (l *assignments) play(n *corev1.Node, want string) error {
	before, a := n.DeepCopy(), n.Annotations
	drain, uncordon := v1alpha1.DrainVerb+"-"+want, v1alpha1.UncordonVerb+"-"+want
	switch {
	case want == "":
		return nil
	case a[v1alpha1.CurrentConfigAnnotation] != want && a[v1alpha1.DesiredDrainAnnotation] != drain:
		a[v1alpha1.DesiredDrainAnnotation], a[v1alpha1.StateAnnotation] = drain, v1alpha1.StateWorking
	case a[v1alpha1.CurrentConfigAnnotation] != want && a[v1alpha1.LastAppliedDrainAnnotation] == drain:
		a[v1alpha1.CurrentConfigAnnotation] = want
	case a[v1alpha1.CurrentConfigAnnotation] == want && a[v1alpha1.DesiredDrainAnnotation] == drain:
		a[v1alpha1.DesiredDrainAnnotation] = uncordon
	case a[v1alpha1.LastAppliedDrainAnnotation] == uncordon && a[v1alpha1.StateAnnotation] != v1alpha1.StateDone:
		a[v1alpha1.StateAnnotation] = v1alpha1.StateDone
	default:
		return nil
	}
	return l.s.admin.Patch(context.Background(), n, client.MergeFrom(before))
}

// check compares what the nodes got with what one rollout after the other gives them.
func (l *assignments) check(rollouts int) {
	l.s.t.Helper()
	for _, name := range l.names {
		if len(l.configs[name]) != rollouts || len(l.drains[name]) != 2*rollouts {
			l.s.t.Errorf("%s, after %d rollouts: configs %q, drains %q", name, rollouts, l.configs[name],
				l.drains[name])
		}
	}
	src := &v1alpha1.GitSource{}
	if err := l.s.get("os", src); err != nil || src.Status.Applying != nil {
		l.s.t.Errorf("the source still applies %+v, %v", src.Status.Applying, err)
	}
	var all mcfgv1.MachineConfigList
	if err := l.s.admin.List(l.s.t.Context(), &all); err != nil {
		l.s.t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, config := range l.configs[l.names[0]] {
		controllertest.Equal(l.s.t, config+" was assigned before", seen[config], false)
		seen[config] = true
	}
}
