package console

import (
	"context"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/console/view"

	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
)

// longestFilter is the maximum length of the filter of a map of nodes, in bytes.
const longestFilter = 200

// poolPage makes the page of one pool: why the pool waits, its nodes, and its history.
func poolPage(ctx context.Context, v Viewer, r *http.Request, now time.Time) (view.Page, error) {
	name := r.PathValue("pool")
	cluster, err := v.Cluster(ctx)
	if err != nil {
		return view.Page{}, err
	}
	f := fleet.New(cluster, now)
	why, err := inspect.WhyPoolOf(f, name)
	if err != nil {
		return view.Page{}, cli.Invalid(err)
	}
	past, err := history.Of(f, name)
	if err != nil {
		return view.Page{}, cli.Invalid(err)
	}
	status := statusOf(ctx, v, f)
	timeline := view.PoolTimeline(ctx, sessionOf(v), name, now)
	p := view.PoolPage{Timeline: &timeline, Why: why, History: &past, Zones: zonesOf(cluster), Map: mapOptions(r)}
	for i := range status.Nodes {
		if status.Nodes[i].Pool == name {
			p.Nodes = append(p.Nodes, status.Nodes[i])
		}
	}
	return view.Page{
		Frame:   view.Frame{Title: "Pool " + name, Command: fleet.ShellLine("bunsen", "why", "pool/"+name)},
		Regions: p.Regions(now),
	}, nil
}

// zonesOf returns the zone of each node that has one.
func zonesOf(c fleet.Cluster) map[string]string {
	zones := map[string]string{}
	for i := range c.Nodes {
		if zone := c.Nodes[i].Labels[corev1.LabelTopologyZone]; zone != "" {
			zones[c.Nodes[i].Name] = zone
		}
	}
	return zones
}

// mapOptions reads the query of a page. An invalid page number of the table means the first page.
func mapOptions(r *http.Request) view.MapOptions {
	q := r.URL.Query()
	page, _ := strconv.Atoi(q.Get("page"))
	o := view.MapOptions{By: q.Get("by"), Filter: q.Get("filter"), Page: min(max(page, 1), 1000)}
	if len(o.Filter) > longestFilter {
		o.Filter = o.Filter[:longestFilter]
	}
	return o
}
