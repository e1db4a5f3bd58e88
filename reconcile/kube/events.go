package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// Event is a Kubernetes event about an object.
type Event struct {
	// Object is the subject, and Related another one that is involved; nil for none.
	Object, Related runtime.Object
	// of type Warning; otherwise Normal
	Warning bool
	// why the controller acted, and what it did; in UpperCamelCase
	Reason, Action string
	// for users, cut to the length that the API allows
	Note string
}

// Type returns the event's type in the API.
func (e Event) Type() string {
	if e.Warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}

// Events sends events. Delivery is not guaranteed, so no decision depends on an event.
type Events interface {
	// Send sends one event.
	Send(e Event)
}

// recorder also logs events: the API server deletes them after an hour.
type recorder struct {
	to  events.EventRecorder
	log logr.Logger
}

// Send logs the event and queues it for the API server.
func (r recorder) Send(e Event) {
	name := ""
	if o, ok := e.Object.(client.Object); ok {
		name = o.GetName()
	}
	note := Clip(e.Note)
	r.log.Info(note, "event", e.Reason, "type", e.Type(), "object", name)
	r.to.Eventf(e.Object, e.Related, e.Type(), e.Reason, e.Action, "%s", note)
}

// component is the controller's name in its events.
const component = "machine-config-controller"

// NewEvents returns the Events for the controllers of a manager. It sends them until the manager ends.
func NewEvents(mgr manager.Manager) (Events, error) {
	core, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a client for events: %w", err)
	}
	broadcaster := events.NewBroadcaster(eventWriter{core})
	// At once: it drops what is sent before.
	err = errors.Join(broadcaster.StartRecordingToSinkWithContext(context.Background()),
		mgr.Add(untilTheEnd(broadcaster.Shutdown)))
	if err != nil {
		return nil, fmt.Errorf("preparing to send events: %w", err)
	}
	return recorder{broadcaster.NewRecorder(mgr.GetScheme(), component), mgr.GetLogger()}, nil
}

// untilTheEnd is called when the manager ends, whether it leads or not.
type untilTheEnd func()

// Start implements manager.Runnable.
func (f untilTheEnd) Start(ctx context.Context) error {
	<-ctx.Done()
	f()
	return nil
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (untilTheEnd) NeedLeaderElection() bool { return false }

// eventWriter uses the core API: unlike events.k8s.io, it takes the times of the first and the last occurrence, by
// which `kubectl get events --sort-by=.lastTimestamp` and `kubectl describe` order events.
type eventWriter struct{ core typedcorev1.EventsGetter }

// Create implements events.EventSink.
func (w eventWriter) Create(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	_, err := w.core.Events(e.Namespace).Create(ctx, coreEvent(e), metav1.CreateOptions{})
	return e, err
}

// Update implements events.EventSink. The broadcaster does not call it.
func (w eventWriter) Update(ctx context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	_, err := w.core.Events(e.Namespace).Update(ctx, coreEvent(e), metav1.UpdateOptions{})
	return e, err
}

// Patch implements events.EventSink. It writes how often an event has occurred, and when it last did.
func (w eventWriter) Patch(ctx context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	now := coreEvent(e)
	patch, err := json.Marshal(map[string]any{
		"series": now.Series, "count": now.Count, "lastTimestamp": now.LastTimestamp,
	})
	if err == nil {
		_, err = w.core.Events(e.Namespace).Patch(ctx, e.Name, types.StrategicMergePatchType, patch,
			metav1.PatchOptions{})
	}
	return e, err
}

func coreEvent(e *eventsv1.Event) *corev1.Event {
	at := metav1.NewTime(e.EventTime.Time)
	out := &corev1.Event{
		ObjectMeta: e.ObjectMeta, InvolvedObject: e.Regarding, Related: e.Related, Reason: e.Reason, Message: e.Note,
		Type: e.Type, Action: e.Action, EventTime: e.EventTime, FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: e.ReportingController, ReportingInstance: e.ReportingInstance,
		Source: corev1.EventSource{Component: e.ReportingController},
	}
	if s := e.Series; s != nil {
		out.Series = &corev1.EventSeries{Count: s.Count, LastObservedTime: s.LastObservedTime}
		out.Count, out.LastTimestamp = s.Count, metav1.NewTime(s.LastObservedTime.Time)
	}
	return out
}

// maxNote: a little less than the API's limit
const maxNote = 1000

// Clip cuts a text to the length that the API allows for the note of an event.
func Clip(text string) string {
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote], "") + "…"
}

// RequesterText names the requester of a config, for events and conditions; "" if unknown.
func RequesterText(r v1alpha1.Requester) string {
	return r.Text(func(c v1alpha1.CommitRef) string {
		return ShortRevision(c.Revision) + " " + source.Quote(c.Subject)
	})
}

// ShortRevision returns a revision in the form that events show.
func ShortRevision(revision string) string {
	r, err := source.ParseRevision(revision)
	if err != nil {
		return revision
	}
	return r.Short()
}
