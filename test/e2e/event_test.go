package e2e

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// event KIND/NAME REASON REGEXP waits until an event about the object matches whole. KIND is the API's, such as
// MachineConfigPool.
func (s *story) event(ts *testscript.TestScript, args []string) error {
	if len(args) != 3 {
		return usage("event KIND/NAME REASON REGEXP")
	}
	want, err := regexp.Compile("^(?s:" + args[2] + ")$")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	go s.cancelOnDeath(ctx, cancel)
	events := s.cluster.clients.EventsV1().Events(metav1.NamespaceAll)
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing events: %w", err)
	}
	var seen []string
	matches := func(e *eventsv1.Event) bool {
		line := fmt.Sprintf("%s/%s %s %s", e.Regarding.Kind, e.Regarding.Name, e.Reason, e.Note)
		seen = append(seen, line)
		if e.Regarding.Kind+"/"+e.Regarding.Name != args[0] || e.Reason != args[1] || !want.MatchString(e.Note) {
			return false
		}
		ts.Logf("%s", line)
		return true
	}
	for i := range list.Items {
		if matches(&list.Items[i]) {
			return nil
		}
	}
	stream, err := events.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return fmt.Errorf("watching events: %w", err)
	}
	defer stream.Stop()
	for change := range stream.ResultChan() {
		if e, ok := change.Object.(*eventsv1.Event); ok && matches(e) {
			return nil
		}
	}
	return fmt.Errorf("waiting for an event %s of %s that is %q: it did not come; seen:\n  %s", args[1], args[0],
		args[2], strings.Join(seen, "\n  "))
}
