package console

import (
	"cmp"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

const (
	// of the form of an action
	mostAction = 8 << 10
	// for an action, which ends even if the browser leaves
	actTime = 20 * time.Second
	// for the event about it
	eventTime = 2 * time.Second
	// for the watches to receive what an action changed
	seenTime = time.Second
	// for which the answer of the API server to a question about rights counts
	rightAge = 30 * time.Second
	// for such an answer, because a page waits for it
	rightTime = 2 * time.Second
	// after a question without an answer, for which a page does not ask again
	rightRest = 5 * time.Second
	// for which a page shows what the user's last action did
	noteAge = 5 * time.Minute
	// that a visitor keeps
	mostRights = 1000
	mostNotes  = 50
	// operatorRole grants every action.
	operatorRole = "bunsen-operator"
)

// allowed returns the methods of a path.
func (s *Server) allowed(r *http.Request) string {
	if findAction(s.actions, r) != nil {
		return "GET, HEAD, POST"
	}
	return "GET, HEAD"
}

// checkAction refuses what no form of the console sends.
func (s *Server) checkAction(r *http.Request) (int, error) {
	if err := s.origin.CheckSite(r); err != nil {
		return http.StatusForbidden, err
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return http.StatusUnsupportedMediaType, errors.New("an action is the form of its page, and no other content")
	}
	if r.ContentLength > mostAction {
		return http.StatusRequestEntityTooLarge, fmt.Errorf("the form has more than %d bytes", mostAction)
	}
	return 0, nil
}

// serveAction answers with the form of an action, or performs it.
func (s *Server) serveAction(w http.ResponseWriter, r *http.Request, v *visitor, a *action) {
	w.Header().Set("Referrer-Policy", "same-origin") // With no-referrer, browsers would hide the origin of a form.
	now := time.Now()
	token := s.access.formToken(r, now)
	form := url.Values{}
	if r.Method == http.MethodPost {
		// The connection may support no deadline.
		_ = http.NewResponseController(w).SetReadDeadline(now.Add(checkTime))
		r.Body = http.MaxBytesReader(w, r.Body, mostAction)
		if err := r.ParseForm(); err != nil {
			w.Header().Set("Connection", "close")
			s.refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the form is not readable, or has more than %d "+
				"bytes", mostAction))
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		form = r.PostForm
		if token == "" || subtle.ConstantTimeCompare([]byte(token), []byte(form.Get(fieldToken))) != 1 {
			s.write(w, http.StatusForbidden, s.notePage(v, "Not done", "Nothing is changed: this form is not from "+
				"your present session. Open it again."))
			return
		}
	}
	// An action ends even if the browser leaves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), actTime)
	defer cancel()
	x, err := v.request(ctx, a, r.PathValue("name"), form, now)
	if x == nil {
		status, p := s.errorPage(v, err)
		if r.Method == http.MethodPost && status == http.StatusServiceUnavailable {
			// A page that loads itself again would lose the form.
			status, p = http.StatusBadGateway, s.notePage(v, "Not done", "Nothing is changed. Go back to send the "+
				"form again. "+err.Error())
		}
		s.write(w, status, p)
		return
	}
	status, problem := http.StatusOK, ""
	if may, unknown := v.mayDo(ctx, a, x); !may && unknown == nil {
		s.write(w, http.StatusForbidden, s.notePage(v, "Not allowed", "You may not "+a.verb+" "+a.subject(x)+
			". ClusterRole "+operatorRole+" grants that right."))
		return
	}
	switch {
	case err != nil:
		status, problem = http.StatusBadGateway, "Nothing is changed: "+err.Error()
	case r.Method == http.MethodPost:
		var done []string
		if done, problem, status = v.perform(ctx, a, x); done != nil {
			id := v.notes.add(a.back(x.name), done, time.Now())
			limitWrite(w) // The action may have taken the time of the first deadline.
			redirect(w, a.back(x.name)+"?"+url.Values{"done": {id}}.Encode())
			return
		}
	}
	s.write(w, status, view.Page{
		Frame: view.Frame{
			Title: a.title + " " + x.name, Cluster: s.cluster, Viewer: v.name, SignOut: s.forms,
		},
		Regions: a.form(x, token, problem).Regions(),
	})
}

func (a *action) subject(x *request) string { return kube.Subject{Kind: a.kind, Name: x.name}.String() }

// request returns the state by which an action is decided: the watches' state with the newest object. It is nil if the
// error means that there is no such object or no state; with another error, its object is not the newest.
func (v *visitor) request(ctx context.Context, a *action, name string, form url.Values, now time.Time) (*request,
	error,
) {
	c, err := v.state(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.exists(newRequest(fleet.New(c, now), name, v.name, form)); err != nil {
		return nil, err
	}
	switch a.kind {
	case kube.KindPool:
		c.Pools, err = renewed(ctx, v.api, c.Pools, name)
	case kube.KindNode:
		c.Nodes, err = renewed(ctx, v.api, c.Nodes, name)
	default:
		c.Sources, err = renewed(ctx, v.api, c.Sources, name)
	}
	x := newRequest(fleet.New(c, now), name, v.name, form)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, kube.ReadError(a.subject(x), err)
	case err != nil:
		return x, kube.ReadError(a.subject(x), err)
	}
	return x, nil
}

// renewed reads one of the objects again.
func renewed[T any, P interface {
	*T
	client.Object
}](ctx context.Context, api client.Reader, all []T, name string) ([]T, error) {
	at := slices.IndexFunc(all, func(o T) bool { return P(&o).GetName() == name })
	if at < 0 {
		return all, nil
	}
	var is T
	if err := api.Get(ctx, client.ObjectKey{Name: name}, P(&is)); err != nil {
		return all, err
	}
	all = slices.Clone(all)
	all[at] = is
	return all, nil
}

// perform does what a form says, and returns the lines of a note about it. The note is nil if nothing is changed and
// the user has to do something: then a problem, or the problems of the fields, say what.
func (v *visitor) perform(ctx context.Context, a *action, x *request) (done []string, problem string, status int) {
	order, err := a.order(x)
	changed := a.changedSince(x)
	if changed != "" {
		changed = "Nothing is changed: " + changed
	}
	if len(x.problems) > 0 {
		return nil, cmp.Or(changed, "Nothing is changed."), http.StatusUnprocessableEntity
	}
	if err != nil {
		return nil, "Nothing is changed: " + err.Error(), http.StatusUnprocessableEntity
	}
	if changed != "" && len(order.Changes) > 0 {
		return nil, changed, http.StatusConflict
	}
	var did, unknown, refused []string
	status = http.StatusUnprocessableEntity
	for i, change := range order.Changes {
		if i > 0 && ctx.Err() != nil {
			refused = append(refused, fmt.Sprintf("%s not changed, because the cluster takes long: do it again.",
				fleet.Count(len(order.Changes)-i, "object")))
			break
		}
		one := kube.HoldOrder{Changes: []kube.PoolChange{change}}
		err := kube.Applier{Client: v.api, Out: io.Discard}.Apply(ctx, one)
		switch {
		case err == nil:
			did = append(did, change.Did)
		case isRefusal(err):
			refused = append(refused, "Not changed: "+err.Error())
			if apierrors.IsForbidden(err) {
				status = http.StatusForbidden
			}
		default:
			unknown = append(unknown, "It is not known whether "+change.Resource+"/"+change.Name+" was changed, "+
				"because the answer of the API server is missing: "+err.Error()+". This page shows the present state. "+
				"To do it again is harmless.")
		}
	}
	if len(did)+len(unknown) == 0 && len(refused) > 0 {
		return nil, strings.Join(atMost(refused), " "), status
	}
	if len(did) > 0 && !a.controllerSays(x, order) {
		v.record(ctx, a, x, did)
	}
	if len(did)+len(unknown) > 0 {
		v.see(ctx, order)
	}
	return slices.Concat(atMost(did), atMost(unknown), atMost(refused), order.Notes), "", http.StatusOK
}

// isRefusal reports whether the API server answered that it changed nothing.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	var exit *cli.ExitError
	if errors.As(err, &answer) {
		code := answer.Status().Code
		return code >= 400 && code < 500 && code != http.StatusRequestTimeout
	}
	return errors.As(err, &exit) && exit.Code == cli.ExitInvalid
}

// see waits until the watches have received a change, so that the next page shows it.
func (v *visitor) see(ctx context.Context, order kube.HoldOrder) {
	o := order.Changes[0].Object()
	ctx, cancel := context.WithTimeout(ctx, seenTime)
	defer cancel()
	if v.api.Get(ctx, client.ObjectKeyFromObject(o), o) != nil {
		return // The page shows what the watches have.
	}
	defer v.feed.Hold()()
	var version uint64
	for {
		s, err := v.feed.Next(ctx, version)
		if err != nil || s.Problem != nil || hasVersion(s.State.Cluster, o) {
			return
		}
		version = s.Version
	}
}

func hasVersion(c fleet.Cluster, o client.Object) bool {
	is := func(m metav1.ObjectMeta) bool {
		return m.Name == o.GetName() && m.ResourceVersion == o.GetResourceVersion()
	}
	switch o.(type) {
	case *mcfgv1.MachineConfigPool:
		return slices.ContainsFunc(c.Pools, func(p mcfgv1.MachineConfigPool) bool { return is(p.ObjectMeta) })
	case *v1alpha1.GitSource:
		return slices.ContainsFunc(c.Sources, func(s v1alpha1.GitSource) bool { return is(s.ObjectMeta) })
	default:
		return slices.ContainsFunc(c.Nodes, func(n corev1.Node) bool { return is(n.ObjectMeta) })
	}
}

// component is the console's name in its events.
const component = "bunsen-console"

// record writes an event about an action, with the rights of the user. Delivery is not guaranteed: the annotations of
// the object also say who did it.
func (v *visitor) record(ctx context.Context, a *action, x *request, did []string) {
	note := v.name
	if because := strings.Join(strings.Fields(x.form.Get(fieldBecause)), " "); because != "" {
		note += ": " + because
	}
	note += ": " + did[0]
	if more := len(did) - 1; more > 0 {
		note += fmt.Sprintf("; and %d more", more)
	}
	ctx, cancel := context.WithTimeout(ctx, eventTime)
	defer cancel()
	about := a.reference(x)
	now := metav1.Now()
	// An error changes nothing for the user.
	_ = v.api.Create(ctx, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: x.name + "." + strconv.FormatInt(now.UnixNano(), 16),
		},
		InvolvedObject: about, Type: corev1.EventTypeNormal, Reason: a.event, Message: clip(safetext.OneLine(note)),
		Source: corev1.EventSource{Component: component}, ReportingController: component,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	})
}

// mostNote is the length of an event's message, in bytes, a little less than the API's limit.
const mostNote = 1000

func clip(text string) string {
	if len(text) <= mostNote {
		return text
	}
	return strings.ToValidUTF8(text[:mostNote], "") + "…"
}

// controllerSays reports whether the controller itself sends the event with the reason of this action.
func (a *action) controllerSays(x *request, order kube.HoldOrder) bool {
	switch a.event {
	case "Held":
		var patch struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		// The patch is this program's own. Its null values are empty.
		_ = json.Unmarshal(order.Changes[0].Patch, &patch)
		to := patch.Metadata.Annotations[v1alpha1.HoldAnnotation]
		return to != "" && to != x.pool().Object.Spec.Configuration.Name
	case "Suspended":
		return x.source().Status.AppliedRevision == ""
	}
	return false
}

// reference of the object that an event is about
func (a *action) reference(x *request) corev1.ObjectReference {
	switch a.kind {
	case kube.KindPool:
		return corev1.ObjectReference{
			APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfigPool", Name: x.name, UID: x.pool().Object.UID,
		}
	case kube.KindSource:
		return corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "GitSource", Name: x.name, UID: x.source().UID,
		}
	}
	return corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: x.name, UID: x.fleet.Node(x.name).UID}
}

// rights are what the API server said that a user may change.
type rights struct {
	mu    sync.Mutex
	known map[[2]string]right
}

type right struct {
	is bool
	// unknown says why there is no answer, or is nil.
	unknown error
	ends    time.Time
}

// groups of the resources that actions change
var groups = map[string]string{
	"machineconfigpools": mcfgv1.GroupName, "nodes": corev1.GroupName, "gitsources": v1alpha1.GroupVersion.Group,
}

// resources of the kinds of objects
var resources = map[string]string{
	kube.KindPool: "machineconfigpools", kube.KindNode: "nodes", kube.KindSource: "gitsources",
}

// resourceOf returns the resource of the object to change.
func resourceOf(change kube.PoolChange) string {
	switch change.Object().(type) {
	case *mcfgv1.MachineConfigPool:
		return "machineconfigpools"
	case *v1alpha1.GitSource:
		return "gitsources"
	}
	return "nodes"
}

// may asks the API server whether the user may patch an object, or every object of a resource for an empty name. The
// error says why that is not known.
func (v *visitor) may(ctx context.Context, resource, name string) (bool, error) {
	now, key := time.Now(), [2]string{resource, name}
	v.rights.mu.Lock()
	known, ok := v.rights.known[key]
	v.rights.mu.Unlock()
	if ok && now.Before(known.ends) {
		return known.is, known.unknown
	}
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "patch", Group: groups[resource], Resource: resource, Name: name,
		},
	}}
	asking, cancel := context.WithTimeout(ctx, rightTime)
	defer cancel()
	switch err := v.api.Create(asking, review); {
	case ctx.Err() != nil: // The browser has left.
		return false, ctx.Err()
	case err == nil:
		known = right{is: review.Status.Allowed, ends: now.Add(rightAge)}
	case ok && known.unknown == nil: // In an outage, the last answer counts.
		known.ends = time.Now().Add(rightRest)
	default:
		known = right{unknown: fmt.Errorf("reading your rights: %w", err), ends: time.Now().Add(rightRest)}
	}
	v.rights.mu.Lock()
	defer v.rights.mu.Unlock()
	if v.rights.known == nil || len(v.rights.known) >= mostRights {
		v.rights.known = map[[2]string]right{}
	}
	v.rights.known[key] = known
	return known.is, known.unknown
}

// mayDo reports whether the user may change what an action changes in the present state.
func (v *visitor) mayDo(ctx context.Context, a *action, x *request) (bool, error) {
	targets := map[string]string{}
	if a.fields == nil {
		// After an error, the action changes nothing.
		o, _ := a.order(x)
		for _, change := range o.Changes {
			targets[resourceOf(change)] = change.Name
		}
	}
	if len(targets) == 0 {
		targets[resources[a.kind]] = x.name
	}
	for resource, name := range targets {
		may, err := v.may(ctx, resource, "")
		if !may && err == nil {
			may, err = v.may(ctx, resource, name)
		}
		if !may {
			return false, err
		}
	}
	return true, nil
}

// actorOf returns the visitor of a page; nil if the page has no actions.
func actorOf(v Viewer) *visitor {
	p, ok := v.(pinned)
	if !ok || p.readOnly || p.api == nil {
		return nil
	}
	return p.visitor
}

// doneOn returns what the user's last action on a page did, which its path names.
func doneOn(v Viewer, r *http.Request, now time.Time) []string {
	if actor := actorOf(v); actor != nil {
		return actor.notes.find(r.URL.Query().Get("done"), r.URL.Path, now)
	}
	return nil
}

// actionsOf returns what a viewer can do with an object in the present state.
func actionsOf(ctx context.Context, v Viewer, r *http.Request, f *fleet.Fleet, kind, name string) view.Actions {
	return view.Actions{Links: linksOf(ctx, v, f, kind, name), Done: doneOn(v, r, f.Now)}
}

func linksOf(ctx context.Context, v Viewer, f *fleet.Fleet, kind, name string) (links []view.Action) {
	actor := actorOf(v)
	if actor == nil {
		return nil
	}
	x := newRequest(f, name, actor.name, nil)
	for _, a := range actions() {
		if a.kind != kind || a.exists(x) != nil {
			continue
		}
		// After an error, the page has no link; it asks again when it is drawn again.
		if may, _ := actor.mayDo(ctx, a, x); !may {
			continue
		}
		if text := a.link(x); text != "" {
			links = append(links, view.Action{Text: text, Href: a.path(name), Danger: a.danger})
		}
	}
	return links
}

// actionsOfSources returns the GitSources with which a viewer can do something.
func actionsOfSources(ctx context.Context, v Viewer, f *fleet.Fleet) (all []view.SourceActions) {
	for i := range f.Sources {
		name := f.Sources[i].Name
		if links := linksOf(ctx, v, f, kube.KindSource, name); len(links) > 0 {
			all = append(all, view.SourceActions{Name: name, Links: links})
		}
	}
	return all
}

// nodeActions returns what a viewer can do with a node; nothing unless it failed.
func nodeActions(ctx context.Context, v Viewer, r *http.Request, row *fleet.NodeRow, now time.Time) (view.Actions,
	error,
) {
	out := view.Actions{Done: doneOn(v, r, now)}
	if row == nil || row.Step != fleet.StepFailed || actorOf(v) == nil {
		return out, nil
	}
	c, err := v.Cluster(ctx)
	if err != nil {
		return out, err
	}
	out.Links = linksOf(ctx, v, fleet.New(c, now), kube.KindNode, row.Name)
	return out, nil
}

// notes are what the last actions of a user did, for the pages that follow them.
type notes struct {
	mu   sync.Mutex
	last int
	all  map[string]note
}

type note struct {
	path  string
	lines []string
	ends  time.Time
}

// add returns the name of a note for the page with a path.
func (n *notes) add(path string, lines []string, now time.Time) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.all, func(_ string, one note) bool { return !now.Before(one.ends) })
	if n.all == nil || len(n.all) >= mostNotes {
		n.all = map[string]note{}
	}
	n.last++
	id := strconv.Itoa(n.last)
	n.all[id] = note{path, lines, now.Add(noteAge)}
	return id
}

// find returns a note for the page with a path; nil if there is none any more.
func (n *notes) find(id, path string, now time.Time) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	one := n.all[id]
	if target, err := url.PathUnescape(one.path); err != nil || cmp.Or(target, "/") != path || !now.Before(one.ends) {
		return nil
	}
	return one.lines
}
