package console

import (
	"context"
	"errors"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// detailPages returns the pages about one node, one commit, a comparison and a search.
func detailPages() []route {
	return []route{
		{"/node/{node}", nodePage},
		{"/pool/{pool}/commit/{commit}", commitPage},
		{"/pool/{pool}/timeline", timelinePage},
		{"/compare", comparePage},
		{"/search", searchPage},
	}
}

// sessionOf returns the viewer with the cache of the user's reads. A viewer that is not a session of the console gets a
// cache for one page only.
func sessionOf(v Viewer) view.DetailSession {
	if p, ok := v.(pinned); ok {
		return view.DetailSession{Viewer: v, Cache: &p.details, Lines: p.lines}
	}
	return view.DetailSession{Viewer: v, Cache: &view.DetailCache{}}
}

// linesIn finds lines in a clone of a source's repository.
func linesIn(repo string, c client.Reader) func(context.Context, string) view.ContentLines {
	return func(ctx context.Context, config string) view.ContentLines {
		of, err := kube.Trace(ctx, c, "mc/"+config)
		if err == nil {
			err = of.Items(ctx, repo)
		}
		if err != nil {
			return view.ContentLines{Note: "The lines are not known: " + err.Error()}
		}
		lines := view.ContentLines{At: map[string]string{}, Note: of.Trace.Note}
		for _, it := range of.Trace.Items {
			lines.At[it.Item] = it.Place
		}
		return lines
	}
}

// found returns the error of a page. For an object that does not exist, the error says that the input is invalid.
func found(err error) error {
	var none *view.NotFoundError
	if errors.As(err, &none) {
		return cli.Invalid(err)
	}
	return err
}

func nodePage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	name := r.PathValue("node")
	p, err := sessionOf(v).Node(ctx, name, now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{
		Frame:   view.Frame{Title: "Node " + name, Command: fleet.ShellLine("bunsen", "why", "node/"+name)},
		Regions: p.Regions(now),
	}, nil
}

func timelinePage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	pool := r.PathValue("pool")
	p, err := view.Timeline(ctx, sessionOf(v), pool, now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{
		Frame: view.Frame{Title: "Timeline of pool " + pool, Command: fleet.ShellLine("bunsen", "history",
			"pool/"+pool)},
		Regions: p.Regions(now),
	}, nil
}

func commitPage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	pool, commit := r.PathValue("pool"), r.PathValue("commit")
	p, err := sessionOf(v).Commit(ctx, pool, commit, now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{
		Frame:   view.Frame{Title: p.Title, Command: fleet.ShellLine("bunsen", "history", "pool/"+pool)},
		Regions: p.Regions(),
	}, nil
}

func comparePage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	q := r.URL.Query()
	p, err := sessionOf(v).Compare(ctx, q.Get("from"), q.Get("to"), now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{Frame: view.Frame{Title: "Compare", Here: "compare"}, Regions: p.Regions()}, nil
}

func searchPage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	p, err := sessionOf(v).Search(ctx, r.URL.Query().Get("q"), now)
	if err != nil {
		return view.Page{}, found(err)
	}
	return view.Page{Frame: view.Frame{Title: "Search", Here: "search"}, Regions: p.Regions()}, nil
}
