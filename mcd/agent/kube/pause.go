package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// pauses are those between tries while the API server does not answer: they grow from a second to a minute, and each is a
// little longer, so that many nodes do not ask at once after an outage.
func pauses() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 10, Cap: time.Minute}
}

// hold waits, at most until the context ends.
func hold(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
