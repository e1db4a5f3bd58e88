package kube

import (
	"context"
	"errors"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/bunsen-os/bunsen/mcd/protocol"
)

// lasting is how long a watch must have held to count as one that worked: after it, no pause is due.
const lasting = 10 * time.Second

// watchLimit is how long a watch may go on: one of which nothing is heard any more is not told from a quiet one.
const watchLimit = 30 * time.Minute

// Watch signals when somebody else changed the Node, and after each reconnection. The channel holds one signal: more say no
// more. While the API server does not answer, it is asked again after pauses that grow to a minute.
func (k *Client) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	return watch(ctx, log, func(ctx context.Context, changed chan<- struct{}) error { return k.watchOnce(ctx, changed) })
}

// watch keeps a watch up.
func watch(ctx context.Context, log *slog.Logger, once func(context.Context, chan<- struct{}) error) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for next := pauses(); ctx.Err() == nil; {
			began := time.Now()
			err := once(ctx, changed)
			if time.Since(began) >= lasting {
				next = pauses()
			}
			pause := next.Step()
			if ctx.Err() == nil {
				log.Debug("watching the Node again", "in", pause, "err", err)
			}
			hold(ctx, pause)
		}
	}()
	return changed
}

func (k *Client) watchOnce(ctx context.Context, changed chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	w, err := k.nodes.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.node).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	var last *protocol.Assignment
	for event := range w.ResultChan() {
		n, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return errors.New("the watch ended with a status")
		}
		now := assignmentOf(n).Asks()
		if last != nil && *last == now {
			continue // a heartbeat
		}
		last = &now
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}
