package agent

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/host"
)

// failureOf is the structured form of why the node failed a config.
func failureOf(config string, why error) v1alpha1.Failure {
	f := v1alpha1.Failure{Config: config, Cause: v1alpha1.FailureApply}
	var refused *refusedError
	var standing *standingError
	var drifted *driftedError
	var missing *missingConfigError
	var path *fs.PathError
	var unsafe *host.UnsafePathError
	switch {
	case errors.As(why, &refused):
		f.Cause = v1alpha1.FailureRefused
	case errors.As(why, &standing):
		f.Cause = v1alpha1.FailureRejected
	case errors.As(why, &drifted):
		f.Cause = v1alpha1.FailureDrift
	case errors.As(why, &missing):
		f.Cause = v1alpha1.FailureNoConfig
	case errors.As(why, &unsafe):
		f.Cause, f.Path = v1alpha1.FailureUnsafePath, unsafe.Path
	case isDiskFull(why):
		f.Cause = v1alpha1.FailureDiskFull
	}
	if errors.As(why, &path) {
		f.Path = path.Path
	}
	return f
}

// isDiskFull reports whether a file system had no space left.
func isDiskFull(why error) bool {
	return errors.Is(why, syscall.ENOSPC) || errors.Is(why, syscall.EDQUOT)
}

// reportFailure reports the structured cause of a failure before its state, so that who acts on the state knows it. It is a write
// of its own and may fail: a cluster whose admission policy is older than the daemon refuses it. A failure that the Node has
// already is reported again only where it answers another request to retry.
func reportFailure(ctx context.Context, a *Agent, config string, why error) {
	node, err := a.Cluster.Assignment(ctx)
	if config == "" || err != nil {
		return // the state is not reported either
	}
	f := failureOf(config, why)
	was, err := v1alpha1.ParseFailure(node.Failure)
	same := err == nil && was.Config == f.Config && was.Cause == f.Cause && was.Path == f.Path
	f.Since = metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	if same {
		f.Since, f.Retry = was.Since, was.Retry
	}
	if a.told != nil && !a.told.Retry.IsZero() { // as it was when the attempt began: it does not answer a later one
		f.Retry = &metav1.Time{Time: a.told.Retry}
	}
	if same && f.Retry.Equal(was.Retry) {
		return
	}
	if err := a.Cluster.Report(ctx, map[string]string{v1alpha1.FailureAnnotation: f.String()}); err != nil {
		a.Log.Debug("the cause of the failure is not reported", "err", err)
	}
}
