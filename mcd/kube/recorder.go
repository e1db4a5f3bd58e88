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

	"github.com/bunsen-os/bunsen/mcd/report"
)

// The limits of a Recorder. A Recorder writes up to burst events at once, then one event per refill. A Recorder does
// not repeat the last event of a reason within the duration repeat. The queue of a Recorder contains the newest
// maxQueued events.
const (
	burst      = 40
	refill     = 15 * time.Second
	repeat     = 10 * time.Minute
	maxQueued  = 64
	maxMessage = 1024
)

// queuedEvent is an event that is not written yet.
type queuedEvent struct {
	reason  report.EventReason
	message string
	at      time.Time
}

// Recorder is the agent's Events over the Kubernetes API, with the kubelet's identity. Recorder never blocks and never
// fails. Events that are still in the queue when the process ends are lost.
type Recorder struct {
	cluster *Connection
	log     *slog.Logger
	wake    chan struct{}

	mu    sync.Mutex
	queue []queuedEvent
	// recent has the last event of each reason. A node that returns to an earlier config is in it once more.
	recent map[report.EventReason]queuedEvent
	tokens float64
	filled time.Time
}

// NewRecorder returns a Recorder that writes until the context ends.
func (l *Connection) NewRecorder(ctx context.Context, log *slog.Logger) *Recorder {
	r := &Recorder{
		cluster: l, log: log, wake: make(chan struct{}, 1), recent: map[report.EventReason]queuedEvent{},
		tokens: burst, filled: time.Now(),
	}
	go r.run(ctx)
	return r
}

// Event implements agent.Events.
func (r *Recorder) Event(reason report.EventReason, message string) {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage-len("…")], "") + "…"
	}
	if !r.enqueue(queuedEvent{reason: reason, message: message}, time.Now()) {
		r.log.Debug("event dropped: too many events", "reason", string(reason))
		return
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// enqueue adds an event to the queue if the limits allow it, and reports whether it has added the event.
func (r *Recorder) enqueue(n queuedEvent, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last, told := r.recent[n.reason]; told && last.message == n.message && now.Sub(last.at) < repeat {
		return false
	}
	r.tokens = min(burst, r.tokens+now.Sub(r.filled).Seconds()/refill.Seconds())
	r.filled = now
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	n.at = now
	r.recent[n.reason] = n
	r.queue = append(r.queue, n)
	if len(r.queue) > maxQueued {
		r.queue = r.queue[1:]
	}
	return true
}

// dequeue removes the oldest event from the queue.
func (r *Recorder) dequeue() (queuedEvent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return queuedEvent{}, false
	}
	n := r.queue[0]
	r.queue = r.queue[1:]
	return n, true
}

func (r *Recorder) run(ctx context.Context) {
	for ctx.Err() == nil {
		n, is := r.dequeue()
		if !is {
			select {
			case <-ctx.Done():
			case <-r.wake:
			}
			continue
		}
		for next := newBackoff(); ctx.Err() == nil; {
			err := r.write(ctx, n)
			if !errors.Is(err, report.ErrUnreachable) {
				if err != nil {
					r.log.Debug("writing an event", "reason", string(n.reason), "err", err)
				}
				break
			}
			sleep(ctx, next.Step())
		}
	}
}

// write creates the event. Events about Nodes are in the namespace default. They name the Node as those of the
// controller do, so that `kubectl describe node` and `kubectl events --for` show both.
func (r *Recorder) write(ctx context.Context, n queuedEvent) error {
	kind := corev1.EventTypeNormal
	if n.reason.IsWarning() {
		kind = corev1.EventTypeWarning
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	_, err := withClient(r.cluster, func(k *Client) (*unstructured.Unstructured, error) {
		uid, err := k.nodeUID(ctx)
		if err != nil {
			return nil, err
		}
		at := metav1.NewTime(n.at)
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Event{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceDefault,
				Name:      fmt.Sprintf("%s.%x", k.node, n.at.UnixNano()),
			},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: k.node, UID: uid},
			Reason:         string(n.reason), Message: n.message, Type: kind, Count: 1, FirstTimestamp: at,
			LastTimestamp:       at,
			Source:              corev1.EventSource{Component: "machineconfigdaemon", Host: k.node},
			ReportingController: "machineconfigdaemon", ReportingInstance: k.node,
		})
		if err != nil {
			return nil, fmt.Errorf("writing an event: %w", err)
		}
		e, err := k.objects.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(
			metav1.NamespaceDefault).
			Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})
		return e, markUnreachable(err)
	})
	return err
}
