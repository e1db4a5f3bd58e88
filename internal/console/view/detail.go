package view

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Viewer reads the cluster with the rights of one user.
type Viewer interface {
	// Cluster returns all objects that a status shows.
	Cluster(ctx context.Context) (fleet.Cluster, error)
	// Reader returns a client that reads from the API server, and not from a cache.
	Reader() client.Reader
}

// DetailSession is a viewer with the cache of its reads.
type DetailSession struct {
	Viewer
	Cache *DetailCache
	// Lines finds the lines of a repository that set the items of a rendered config. Lines is nil if no repository is
	// at hand.
	Lines func(ctx context.Context, config string) ContentLines
}

// NotFoundError means that the cluster does not have the object that a user asks for.
type NotFoundError struct{ Problem string }

// Error returns the problem as a text.
func (e *NotFoundError) Error() string { return e.Problem }

func notFound(format string, args ...any) error {
	return &NotFoundError{fmt.Sprintf(format, args...)}
}

// The roles of config/rbac/people.yaml that let users read.
const (
	viewerRole       = "bunsen-viewer"
	configViewerRole = "bunsen-config-viewer"
)

// deniedNote returns a text that says which right is missing and what the page therefore does not show. For another
// error, deniedNote returns "".
func deniedNote(err error, what, missing, role string) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	return "permission denied: you may not read " + what + ", so this page does not show " + missing +
		". ClusterRole " + role + " grants that right"
}
