package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/history"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Viewer reads the cluster with the rights of one user.
type Viewer interface {
	// Cluster returns all objects that a status shows.
	Cluster(ctx context.Context) (fleet.Cluster, error)
	// Reader reads from the API server, and not from a cache.
	Reader() client.Reader
}

// DetailSession is a viewer with the cache of its reads.
type DetailSession struct {
	Viewer
	Cache *DetailCache
	// Lines finds the lines of a repository that set the items of a rendered config; nil without a repository.
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

// deniedNote says which right is missing and what the page therefore does not show; "" for another error.
func deniedNote(err error, what, missing, role string) string {
	if !apierrors.IsForbidden(err) {
		return ""
	}
	return "permission denied: you may not read " + what + ", so this page does not show " + missing +
		". ClusterRole " + role + " grants that right"
}

// Node returns the page of a node. The error is a *NotFoundError if the cluster has no node of the name, and the
// controller denied no machine of the name.
func (s DetailSession) Node(ctx context.Context, name string, now time.Time) (NodePage, error) {
	c, err := s.Cluster(ctx)
	if err != nil {
		return NodePage{}, err
	}
	node, err := s.node(ctx, &c, name, now)
	if err != nil {
		return NodePage{}, err
	}
	why, err := inspect.WhyNode(c, name, now)
	if err != nil {
		return NodePage{}, notFound("%s", err)
	}
	p := NodePage{Why: why}
	if node == nil {
		return p, nil
	}
	p.Drift = inspect.NewDriftReport([]corev1.Node{*node}, c.Daemons, now)
	p.Configs = configLines(&c, why, now)
	if report, known := c.Daemons[name]; known {
		p.Daemon = &report
	} else if c.DaemonsNote != "" {
		p.Notes = append(p.Notes, "heartbeats of daemons: "+c.DaemonsNote)
	}
	s.addConditions(ctx, &p, node, now)
	s.addEvents(ctx, &p, name, now)
	s.addContents(ctx, &p, &c, now)
	return p, nil
}

// node reads a Node from the API server, because the watches drop its report of drift, and puts it into the objects of
// the cluster; nil if it does not exist.
func (s DetailSession) node(ctx context.Context, c *fleet.Cluster, name string, now time.Time) (*corev1.Node, error) {
	at := slices.IndexFunc(c.Nodes, func(n corev1.Node) bool { return n.Name == name })
	if at < 0 {
		return nil, nil
	}
	key := "node/" + name + "/" + c.Nodes[at].ResourceVersion
	node, err := cached(s.Cache, key, lasts(now, configAge), func() (result[*corev1.Node], error) {
		n := &corev1.Node{}
		err := s.Reader().Get(ctx, client.ObjectKey{Name: name}, n)
		return result[*corev1.Node]{n, 16 << 10}, err
	})
	switch {
	case apierrors.IsNotFound(err):
		return nil, notFound("there is no node %q; `bunsen get nodes` lists them", name)
	case err != nil:
		return nil, fmt.Errorf("reading node/%s: %w", name, err)
	}
	c.Nodes = slices.Clone(c.Nodes)
	c.Nodes[at] = *node
	return node, nil
}

// configLines returns the node's current config, and the other configs that the node gets or that its pool should run.
func configLines(c *fleet.Cluster, why inspect.Why, now time.Time) []ConfigLine {
	withoutNodes := *c
	withoutNodes.Nodes = nil // The commits of configs do not depend on the nodes.
	f := fleet.New(withoutNodes, now)
	var out []ConfigLine
	add := func(role, name string) {
		if name == "" {
			return
		}
		for i := range out {
			if out[i].Row.Name == name {
				out[i].Role += ", " + role
				return
			}
		}
		config := v1alpha1.ConfigVersion{Config: name}
		row := f.Config(config)
		if v := f.PoolByName[v1alpha1.RenderedPool(name)]; v != nil && why.Node != nil {
			row = f.ConfigOfNode(v, config, why.Node.Name)
		}
		out = append(out, ConfigLine{Role: role, Row: *row})
	}
	if why.Node != nil {
		add("current", why.Node.Current.Config)
		add("desired", why.Node.Desired.Config)
	}
	if why.Target != nil {
		add("target of its pool", v1alpha1.ParseConfigVersion(why.Target.Name).Config)
	}
	if why.Back != nil {
		add("to which its pool returned", v1alpha1.ParseConfigVersion(why.Back.Name).Config)
	}
	return out
}

// addConditions adds the conditions, and the time of the node's step.
func (s DetailSession) addConditions(ctx context.Context, p *NodePage, node *corev1.Node, now time.Time) {
	of, err := cached(s.Cache, "mcn/"+node.Name, lasts(now, reportAge), func() (result[*mcfgv1.MachineConfigNode],
		error,
	) {
		n := &mcfgv1.MachineConfigNode{}
		err := s.Reader().Get(ctx, client.ObjectKey{Name: node.Name}, n)
		return result[*mcfgv1.MachineConfigNode]{n, 8 << 10}, err
	})
	switch note := deniedNote(err, "MachineConfigNodes", "the conditions of the update", viewerRole); {
	case note != "":
		p.Notes = append(p.Notes, note)
	case apierrors.IsNotFound(err):
		p.Notes = append(p.Notes, "the node has no MachineConfigNode yet")
	case err != nil:
		p.Notes = append(p.Notes, fmt.Sprintf("reading MachineConfigNode %s: %v", node.Name, err))
	default:
		if row := p.Why.Node; row != nil && row.Untimed() {
			row.Since = fleet.Began(of, row.Step)
		}
		for _, c := range of.Status.Conditions {
			p.Conditions = append(p.Conditions, Condition{
				Of: "MachineConfigNode", Type: c.Type,
				Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
			})
		}
	}
	for _, c := range node.Status.Conditions {
		p.Conditions = append(p.Conditions, Condition{
			Of: "Node", Type: string(c.Type), Status: string(c.Status),
			Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		})
	}
}

// Of a page.
const (
	mostEvents  = 30
	mostUpdates = 10
)

// eventsNamespace: the namespace with the events of objects that have no namespace.
const eventsNamespace = "default"

// addEvents adds the last events, the newest first.
func (s DetailSession) addEvents(ctx context.Context, p *NodePage, name string, now time.Time) {
	events, err := cached(s.Cache, "events/"+name, lasts(now, reportAge), func() (result[[]corev1.Event], error) {
		var list corev1.EventList
		err := s.Reader().List(ctx, &list, client.InNamespace(eventsNamespace),
			client.MatchingFields{"involvedObject.name": name}, client.Limit(500))
		return result[[]corev1.Event]{list.Items, 1024 * len(list.Items)}, err
	})
	if err != nil {
		note := fmt.Sprintf("reading the events of node/%s: %v", name, err)
		if apierrors.IsForbidden(err) {
			note = "permission denied: you may not list events in the namespace " + eventsNamespace +
				", so this page does not show them. ClusterRole view grants that right"
		}
		p.Notes = append(p.Notes, note)
		return
	}
	p.Updates = history.Updates(name, events)
	p.Updates = p.Updates[:min(len(p.Updates), mostUpdates)]
	for i := range events {
		e := &events[i]
		if e.InvolvedObject.Kind != "Node" && e.InvolvedObject.Kind != "MachineConfigNode" {
			continue
		}
		count := int(e.Count)
		if e.Series != nil {
			count = int(e.Series.Count)
		}
		p.Events = append(p.Events, Event{
			Of: e.InvolvedObject.Kind, Type: e.Type, Reason: e.Reason,
			Message: e.Message, By: otherHost(e), Count: count, Last: history.LastTime(e),
		})
	}
	slices.SortStableFunc(p.Events, func(a, b Event) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	p.Events = p.Events[:min(len(p.Events), mostEvents)]
}

// otherHost returns the host from which an event about a node comes, if it is another one. The admission policy
// bunsen-node-events lets a node name only itself there.
func otherHost(e *corev1.Event) string {
	if host := history.HostTimeline(e); host != e.InvolvedObject.Name {
		return host
	}
	return ""
}

func (s DetailSession) addContents(ctx context.Context, p *NodePage, c *fleet.Cluster, now time.Time) {
	if p.Why.Node == nil || p.Why.Node.Current.IsZero() {
		p.ContentsNote = "The node has no config yet."
		return
	}
	config := p.Why.Node.Current.Config
	of, err := s.contents(ctx, c, config, now)
	switch note := deniedNote(err, "MachineConfigs", "the contents of configs and where they come from",
		configViewerRole); {
	case note != "":
		p.ContentsNote = note
	case apierrors.IsNotFound(err):
		p.ContentsNote = "MachineConfig " + config + " no longer exists, so its contents are not known."
	case err != nil:
		p.ContentsNote = err.Error()
	default:
		p.Contents = of
		s.addChanges(ctx, p, c, now)
	}
}

// mostChangeReads limits the configs that the page of a node reads to say who changed each item last.
const mostChangeReads = 12

// addChanges adds who last changed each item of the node's config. A config of the node's own is left out: the configs
// before are in other objects. So is one whose earlier configs the viewer may not read.
func (s DetailSession) addChanges(ctx context.Context, p *NodePage, c *fleet.Cluster, now time.Time) {
	config, pool := p.Why.Node.Current.Config, p.Why.Node.Pool
	var err error
	p.Changed, err = cached(s.Cache, "changed/"+pool+"/"+config, lasts(now, configAge),
		func() (result[map[history.ItemKey]LastChange], error) {
			withoutNodes := *c
			withoutNodes.Nodes = nil // The history of configs does not depend on the nodes.
			var items []history.ItemKey
			for _, it := range p.Contents.Items {
				if len(it.Nodes) == 0 {
					items = append(items, it.key)
				}
			}
			reads := mostChangeReads
			all, err := s.lastChanges(ctx, fleet.New(withoutNodes, now), ref{pool, config}, items, &reads, now)
			return result[map[history.ItemKey]LastChange]{all, 300 * len(all)}, err
		})
	if err != nil {
		p.ContentsNote = "Who changed the items last is not known: " + err.Error()
	}
}

const (
	// Up to so many nodes, the page of a pool reads the times of all. Larger clusters have a page for the timeline
	// alone.
	mostTimed = 250
	// that a timeline reads
	mostTimedEvents = 5000
)

// PoolTimeline returns the timeline for the page of a pool, in a large cluster only a link to its page.
func PoolTimeline(ctx context.Context, s DetailSession, pool string, now time.Time) TimelinePage {
	if c, err := s.Cluster(ctx); err == nil && len(c.Nodes) > mostTimed {
		return TimelinePage{Pool: pool, Elsewhere: true}
	}
	p, err := Timeline(ctx, s, pool, now)
	if err != nil {
		p.Notes = append(p.Notes, err.Error())
	}
	return p
}

// Timeline returns the page of a pool's timeline. The error is a *NotFoundError if the pool does not exist.
func Timeline(ctx context.Context, s DetailSession, pool string, now time.Time) (TimelinePage, error) {
	c, err := s.Cluster(ctx)
	if err != nil {
		return TimelinePage{}, err
	}
	f := fleet.New(c, now)
	v, err := f.FindPool(pool)
	if err != nil {
		return TimelinePage{}, notFound("%s", err)
	}
	age := timesAge
	if len(f.Nodes) > mostTimed {
		age = countAge
	}
	return readTimeline(ctx, s, v, lasts(now, age)), nil
}

func readTimeline(ctx context.Context, s DetailSession, v *fleet.Pool, until [2]time.Time) TimelinePage {
	p := TimelinePage{Pool: v.Object.Name}
	machines, err := cached(s.Cache, "mcns", until, func() (result[[]mcfgv1.MachineConfigNode], error) {
		var list mcfgv1.MachineConfigNodeList
		err := s.Reader().List(ctx, &list)
		return result[[]mcfgv1.MachineConfigNode]{list.Items, 4096 * len(list.Items)}, err
	})
	switch note := deniedNote(err, "MachineConfigNodes", "the present steps of nodes", viewerRole); {
	case note != "":
		p.Notes = append(p.Notes, note)
	case err != nil:
		p.Notes = append(p.Notes, fmt.Sprintf("reading MachineConfigNodes: %v", err))
	}
	events, err := cached(s.Cache, "node-events", until, func() (result[[]corev1.Event], error) {
		var list corev1.EventList
		err := s.Reader().List(ctx, &list, client.InNamespace(eventsNamespace),
			client.MatchingFields{"involvedObject.kind": "Node"}, client.Limit(mostTimedEvents))
		return result[[]corev1.Event]{list.Items, 1024 * len(list.Items)}, err
	})
	switch {
	case apierrors.IsForbidden(err):
		p.Notes = append(p.Notes, "permission denied: you may not list events in the namespace "+eventsNamespace+
			", so this page does not show earlier drains and reboots. ClusterRole view grants that right")
	case err != nil:
		p.Notes = append(p.Notes, fmt.Sprintf("reading the events of nodes: %v", err))
	case len(events) >= mostTimedEvents:
		p.Notes = append(p.Notes, fmt.Sprintf("The cluster has more than %d events of nodes, so some drains and "+
			"reboots are missing.", mostTimedEvents))
	}
	p.Timeline = history.NewTimeline(v, machines, events)
	return p
}
