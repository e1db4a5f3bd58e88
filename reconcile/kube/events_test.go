package kube

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestEventsHaveTimes: an event of the controller has the times that kubectl sorts by, also when it occurs again.
func TestEventsHaveTimes(t *testing.T) {
	clients := fake.NewClientset()
	w := eventWriter{clients.CoreV1()}
	began := metav1.NewMicroTime(time.Date(2026, 1, 2, 12, 0, 0, 500000, time.UTC))
	again := metav1.NewMicroTime(began.Add(3 * time.Minute))
	e := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "n.1"}, EventTime: began,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"},
		Related:   &corev1.ObjectReference{Kind: "Pod", Name: "p"},
		Reason:    "Cordon", Action: "Drain", Note: "cordoned", Type: "Normal", ReportingController: component,
		ReportingInstance: "c-1",
	}
	if _, err := w.Create(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	e.Series = &eventsv1.EventSeries{Count: 3, LastObservedTime: again}
	if _, err := w.Patch(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	got, err := clients.CoreV1().Events("default").Get(t.Context(), "n.1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !got.FirstTimestamp.Equal(&metav1.Time{Time: began.Truncate(time.Second)}) || got.Count != 3 ||
		!got.LastTimestamp.Equal(&metav1.Time{Time: again.Truncate(time.Second)}) || got.Series.Count != 3 ||
		got.InvolvedObject.UID != "u" || got.Related.Name != "p" || got.Message != "cordoned" ||
		got.Source.Component != component || got.Action != "Drain" {
		text, _ := json.Marshal(got)
		t.Errorf("the event is %s", text)
	}
}
