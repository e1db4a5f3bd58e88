package console

import (
	"context"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// Viewer reads the cluster with the rights of one signed-in user.
type Viewer interface {
	// Name returns the name of the user.
	Name() string
	// Cluster returns all objects that a status shows, from the viewer's own watches. The caller must not change the
	// objects.
	Cluster(ctx context.Context) (fleet.Cluster, error)
	// Reader returns a client that reads from the API server with the viewer's own rights.
	Reader() client.Reader
}

// pageFunc makes a page for a viewer and a request. pageFunc is called again after each change of the cluster, for the
// page's stream.
type pageFunc func(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error)

// pages returns the paths of all pages, with the function of each page.
func pages() []route {
	return append([]route{
		{"/", overview},
		{"/pool/{pool}", poolPage},
	}, detailPages()...)
}

// overview makes the page of the whole cluster.
func overview(ctx context.Context, v Viewer, _ *http.Request, now time.Time) (view.Page, error) {
	cluster, err := v.Cluster(ctx)
	if err != nil {
		return view.Page{}, err
	}
	status := statusOf(ctx, v, fleet.New(cluster, now))
	return view.Page{
		Frame:   view.Frame{Title: "Overview", Here: "overview", Command: "bunsen status"},
		Regions: view.Overview(status, now),
	}, nil
}

// statusOf returns the status that `bunsen status` prints.
func statusOf(ctx context.Context, v Viewer, f *fleet.Fleet) inspect.Status {
	status := inspect.StatusOf(f)
	if times, ok := v.(interface {
		fillStatus(context.Context, *inspect.Status)
	}); ok {
		times.fillStatus(ctx, &status)
	}
	return status
}
