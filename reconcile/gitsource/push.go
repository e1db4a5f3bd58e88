package gitsource

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// maxPushWait is how long the controller polls more often because the repository has not listed an announced commit
// yet.
const maxPushWait = 2 * time.Minute

// pushKey identifies the last announced push of a source; empty if there is none.
func pushKey(src *v1alpha1.GitSource) string {
	p := src.Status.LastPush
	if p == nil {
		return ""
	}
	return p.Received.UTC().Format(time.RFC3339Nano) + " " + p.Ref + " " + p.Commit
}

// pushPause is the shortest time between two polls that announced pushes cause. Whoever can send requests of a webhook
// again causes no more polls.
const pushPause = time.Second

// pushPause returns how long the poll for an announced push waits after the last poll; 0 if the push was polled for or
// need not wait.
func (l listing) pushPause(push string, now time.Time) time.Duration {
	if push == l.push || l.polled.IsZero() {
		return 0
	}
	return min(pushPause, max(0, l.polled.Add(pushPause).Sub(now)))
}

// awaitPush returns the pause until the next listing, and true, if the repository does not list an announced commit
// yet. The pauses grow with the age of the push, so the controller lists the repository about eight times.
func awaitPush(p *v1alpha1.AnnouncedPush, refs []source.Ref, now time.Time) (time.Duration, bool) {
	if p == nil || p.Ref == "" || p.Commit == "" || !isRecent(p, now) {
		return 0, false
	}
	for _, r := range refs {
		if r.Name == p.Ref && (r.Hash == p.Commit || r.Commit() == p.Commit) {
			return 0, false
		}
	}
	return max(time.Second, now.Sub(p.Received.Time)/2), true
}

// isRecent reports whether a push was announced less than maxPushWait ago.
func isRecent(p *v1alpha1.AnnouncedPush, now time.Time) bool {
	return p != nil && now.Sub(p.Received.Time).Abs() <= maxPushWait
}

// webhookProblems returns a warning if the Secret of the webhook cannot be used: without a usable Secret, the receiver
// refuses every request.
func webhookProblems(ctx context.Context, live client.Reader, namespace string, src *v1alpha1.GitSource) []string {
	if src.Spec.Webhook == nil {
		return nil
	}
	name := src.Spec.Webhook.SecretRef.Name
	var s corev1.Secret
	err := live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &s)
	if err == nil {
		_, err = WebhookToken(s.Data)
	} else if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil // The API server does not answer, and other requests report this problem.
	}
	if err == nil {
		return nil
	}
	return []string{fmt.Sprintf("every request of the webhook is refused: reading Secret %s/%s: %v", namespace, name,
		err)}
}
