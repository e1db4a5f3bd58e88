package kube

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// newBackoff returns the pauses between attempts while the API server does not answer. The pauses grow from a second to
// a minute. A random part keeps many nodes from sending requests at once after an outage.
func newBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.25, Steps: 10, Cap: time.Minute}
}

// sleep waits for a duration, or until the context ends.
func sleep(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
