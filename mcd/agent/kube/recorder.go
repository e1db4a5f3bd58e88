package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// What a Recorder writes at most: burst events at once, then one for each refill; what is said again within repeat is not
// written. Those that wait for the API server are the newest waitingEvents.
const (
	burst         = 40
	refill        = 15 * time.Second
	repeat        = 10 * time.Minute
	waitingEvents = 64
	longestNote   = 1024
)

// note is an event before it is written.
type note struct {
	reason  protocol.Reason
	message string
	at      time.Time
}

// Recorder is the agent's Events over the Kubernetes API, with the kubelet's identity. Writing is nobody's concern: it never blocks and
// never fails, and what waits for the API server at the end of the process is lost.
type Recorder struct {
	cluster *Later
	log     *slog.Logger
	wake    chan struct{}

	mu      sync.Mutex
	waiting []note
	said    map[note]time.Time
	tokens  float64
	filled  time.Time
}

// NewRecorder writes until the context ends.
func NewRecorder(ctx context.Context, cluster *Later, log *slog.Logger) *Recorder {
	r := &Recorder{cluster: cluster, log: log, wake: make(chan struct{}, 1), said: map[note]time.Time{}, tokens: burst, filled: time.Now()}
	go r.run(ctx)
	return r
}

// Event is for the agent's Events.
func (r *Recorder) Event(reason protocol.Reason, message string) {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) > longestNote {
		message = strings.ToValidUTF8(message[:longestNote-len("…")], "") + "…"
	}
	if !r.admit(note{reason: reason, message: message}, time.Now()) {
		r.log.Debug("an event too many", "reason", string(reason))
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// admit puts a note among those that wait.
func (r *Recorder) admit(n note, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for old, at := range r.said {
		if now.Sub(at) >= repeat {
			delete(r.said, old)
		}
	}
	if _, again := r.said[n]; again {
		return false
	}
	r.tokens = min(burst, r.tokens+now.Sub(r.filled).Seconds()/refill.Seconds())
	r.filled = now
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	r.said[n] = now
	n.at = now
	r.waiting = append(r.waiting, n)
	if len(r.waiting) > waitingEvents {
		r.waiting = r.waiting[1:]
	}
	return true
}

// next is the oldest that waits.
func (r *Recorder) next() (note, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting) == 0 {
		return note{}, false
	}
	n := r.waiting[0]
	r.waiting = r.waiting[1:]
	return n, true
}

func (r *Recorder) run(ctx context.Context) {
	for ctx.Err() == nil {
		n, is := r.next()
		if !is {
			select {
			case <-ctx.Done():
			case <-r.wake:
			}
			continue
		}
		for next := pauses(); ctx.Err() == nil; {
			err := r.write(ctx, n)
			if !errors.Is(err, protocol.ErrUnreachable) {
				if err != nil {
					r.log.Debug("writing an event", "reason", string(n.reason), "err", err)
				}
				break
			}
			hold(ctx, next.Step())
		}
	}
}

// write makes the event. Events about Nodes live in the namespace default, and name the Node twice, as a kubelet's do.
func (r *Recorder) write(ctx context.Context, n note) error {
	kind := corev1.EventTypeNormal
	if n.reason.Warns() {
		kind = corev1.EventTypeWarning
	}
	node, at := r.cluster.node, metav1.NewTime(n.at)
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x", node, n.at.UnixNano())},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: node, UID: types.UID(node)},
		Reason:         string(n.reason), Message: n.message, Type: kind, Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source:              corev1.EventSource{Component: "machineconfigdaemon", Host: node},
		ReportingController: "machineconfigdaemon", ReportingInstance: node,
	})
	if err != nil {
		return fmt.Errorf("writing an event: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err = via(r.cluster, func(k *Client) (*unstructured.Unstructured, error) {
		e, err := k.objects.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(metav1.NamespaceDefault).
			Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return e, answered(err)
	})
	return err
}
