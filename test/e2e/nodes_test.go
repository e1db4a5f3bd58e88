package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// own VAR NODE CONFIG sets a variable to the config that a node runs if CONFIG is the config of its pool.
func (s *story) own(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("own VAR NODE CONFIG")
	}
	o, err := s.object("mc/" + args[2])
	if err != nil {
		return err
	}
	mc, err := o.client.Get(context.Background(), o.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading MachineConfig %s: %w", o.name, err)
	}
	of, err := v1alpha1.ParseNodeConfigs(mc.GetAnnotations()[v1alpha1.NodeConfigsAnnotation])
	if err != nil {
		return err
	}
	if of.IsZero() {
		return fmt.Errorf("all nodes run %s", args[2])
	}
	ts.Setenv(args[0], of.Of(args[1]))
	return nil
}

// moved NODE... fails unless exactly these nodes were assigned another config, drained or booted again since
// watchnodes.
func (s *story) moved(_ *testscript.TestScript, args []string) error {
	if s.watch == nil {
		return usage("moved NODE..., after watchnodes")
	}
	if err := s.catchUp(); err != nil {
		return err
	}
	assigned := map[string]int{}
	for _, nodes := range s.watch.assignments() {
		for _, node := range nodes {
			assigned[node]++
		}
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	var moved []string
	for node, seen := range s.watch.seen {
		if assigned[node] > 1 || seen.rebooted() || seen.drained() {
			moved = append(moved, node)
		}
	}
	slices.Sort(moved)
	slices.Sort(args)
	if !slices.Equal(moved, args) {
		return fmt.Errorf("the nodes %q were assigned another config, drained or booted again, and not %q; the "+
			"record:\n%s", moved, args, strings.Join(s.watch.book, "\n"))
	}
	return s.watch.err
}
