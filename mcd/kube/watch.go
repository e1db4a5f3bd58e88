package kube

import (
	"context"
	"errors"
	"log/slog"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/bunsen-os/bunsen/mcd/report"
)

// stableWatch is how long a watch must have lasted to reset the pauses.
const stableWatch = 10 * time.Second

// watchLimit is how long a watch may last. There is a limit because a broken connection looks like a watch without
// changes.
const watchLimit = 30 * time.Minute

// Watch returns a channel with a signal when another program has changed the Node, and after each reconnection. The
// channel contains at most one signal. While the API server does not answer, Watch retries with pauses that grow to a
// minute.
func (k *Client) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	return watch(ctx, log, func(ctx context.Context, changed chan<- struct{}) error {
		return k.watchOnce(ctx, changed)
	})
}

// watch starts a watch again whenever it ends.
func watch(ctx context.Context, log *slog.Logger, once func(context.Context, chan<- struct{}) error) <-chan struct{} {
	changed := make(chan struct{}, 1)
	go func() {
		for next := newBackoff(); ctx.Err() == nil; {
			began := time.Now()
			err := once(ctx, changed)
			if time.Since(began) >= stableWatch {
				next = newBackoff()
			}
			pause := next.Step()
			if ctx.Err() == nil {
				log.Debug("watching the Node again", "in", pause, "err", err)
			}
			sleep(ctx, pause)
		}
	}()
	return changed
}

func (k *Client) watchOnce(ctx context.Context, changed chan<- struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, watchLimit)
	defer cancel()
	w, err := k.nodes.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField,
		k.node).String()})
	if err != nil {
		return err
	}
	defer w.Stop()
	var last *report.Node
	for event := range w.ResultChan() {
		n, ok := event.Object.(*metav1.PartialObjectMetadata)
		if !ok {
			return errors.New("the watch ended with a status")
		}
		now := assignmentOf(n).Watched()
		if last != nil && *last == now {
			continue // The change is only a heartbeat of the kubelet.
		}
		last = &now
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	return nil
}
