package kube

import (
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Event is a Kubernetes event about an object.
type Event struct {
	// Object is the subject of the event. Related is another object that is involved; nil for none.
	Object, Related runtime.Object
	// Warning marks an event of type Warning; other events are of type Normal.
	Warning bool
	// Reason is why the controller acted, and Action what it did; both in UpperCamelCase.
	Reason, Action string
	// Note is the text for users. Events cuts the note to the length that the API allows.
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

// recorder sends events to the API server, and logs them because the API server deletes an event after an hour.
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

// NewEvents returns the Events for the controllers of a manager.
func NewEvents(mgr manager.Manager) Events {
	return recorder{mgr.GetEventRecorder("machine-config-controller"), mgr.GetLogger()}
}

// maxNote is the maximum length of the note of an event, a little less than the API's limit.
const maxNote = 1000

// Clip cuts a text to the length that the API allows for the note of an event.
func Clip(text string) string {
	if len(text) <= maxNote {
		return text
	}
	return strings.ToValidUTF8(text[:maxNote], "") + "…"
}
