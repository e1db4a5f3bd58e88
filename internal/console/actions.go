package console

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/cli"
	"github.com/bunsen-os/bunsen/internal/cli/kube"
	"github.com/bunsen-os/bunsen/internal/console/view"
	"github.com/bunsen-os/bunsen/internal/inspect"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// action is a change that a user can request from a page, with the form that explains it. The order is the one of the
// verb of the command line.
type action struct {
	// kind of the object, as kube has it, and verb of the command line
	kind, verb string
	// title and button begin with the verb; danger: it stops something
	title, button string
	danger        bool
	effect        string
	// event is the reason of the event about it.
	event string
	// link returns the text of the link to the form; empty if the state of the object makes no action possible.
	link func(x *request) string
	// fields of the form; nil for none
	fields func(x *request) []view.ActionField
	// facts say what the action means now; nil: what its order would do
	facts func(x *request) []string
	// order reads the fields, and adds their problems to the request.
	order func(x *request) (kube.HoldOrder, error)
}

// request is one object, the state of the cluster, and what a user filled in.
type request struct {
	fleet     *fleet.Fleet
	name, who string
	form      url.Values
	// problems of fields, by name
	problems map[string]string
	// retry of the pool; nil before retryPool
	retry *kube.HoldOrder
}

func newRequest(f *fleet.Fleet, name, who string, form url.Values) *request {
	return &request{fleet: f, name: name, who: who, form: form, problems: map[string]string{}}
}

// Names of fields.
const (
	fieldToken   = "form-token"
	fieldState   = "form-state"
	fieldBecause = "because"
	fieldUntil   = "until"
	fieldAt      = "at"
	fieldOpenFor = "open-for"
)

const (
	// of a reason, in characters
	mostReason = 500
	// of the other fields, in characters
	mostField = 100
	// of the commits to choose from
	mostOffers = 30
	// of the objects that a page names one by one
	mostLines = 20
)

// segments are the first parts of the paths of pages, by kind.
var segments = map[string]string{kube.KindPool: "pool", kube.KindNode: "node", kube.KindSource: "source"}

// path of the form about an object
func (a *action) path(name string) string { return view.PathOf(segments[a.kind], name) + "/" + a.verb }

func (a *action) pattern() string { return "/" + segments[a.kind] + "/{name}/" + a.verb }

// back is the page of the object.
func (a *action) back(name string) string {
	if a.kind == kube.KindSource {
		return "/"
	}
	return view.PathOf(segments[a.kind], name)
}

// findAction returns the action of a path, and sets the name of its object on the request; nil if there is none.
func findAction(all []*action, r *http.Request) *action {
	for _, a := range all {
		if values, ok := match(a.pattern(), r.URL.EscapedPath()); ok {
			r.SetPathValue("name", values["name"])
			return a
		}
	}
	return nil
}

// command returns the command line that does the same. What a user fills in is a placeholder.
func (a *action) command(x *request, fields []view.ActionField) string {
	line := fleet.ShellLine("bunsen", a.verb, kube.Subject{Kind: a.kind, Name: x.name}.String())
	for _, f := range fields {
		if f.Required {
			line += " --" + f.Name + " " + map[string]string{
				fieldBecause: "TEXT", fieldAt: "REVISION", fieldOpenFor: "2h",
			}[f.Name]
		}
	}
	return line
}

// form draws the page on which the user confirms the action.
func (a *action) form(x *request, token, problem string) view.ActionForm {
	f := view.ActionForm{
		Path: a.path(x.name), Back: a.back(x.name), Effect: a.effect, Problem: problem, Button: a.button,
		Danger: a.danger, Token: token, State: digest(a.settings(x)),
	}
	if a.fields != nil {
		f.Fields = a.fields(x)
	}
	f.Command = a.command(x, f.Fields)
	var effects []string
	if len(f.Fields) == 0 {
		var any bool
		if effects, any = a.effects(x); !any {
			f.Button = "" // The facts say why.
		}
	}
	if f.Facts = effects; a.facts != nil {
		f.Facts = a.facts(x)
	}
	for i := range f.Fields {
		one := &f.Fields[i]
		one.Value, one.Problem = strings.ToValidUTF8(x.form.Get(one.Name), "\uFFFD"), x.problems[one.Name]
		for k := range one.Options {
			one.Options[k].Chosen = one.Options[k].Value == one.Value
		}
	}
	return f
}

// actions returns every action of the console.
func actions() []*action {
	return []*action{
		{
			kind: kube.KindPool, verb: "pause", title: "Pause pool", button: "Pause the pool", danger: true,
			event: "Paused",
			effect: "The controller assigns no config to the nodes of this pool until somebody resumes it, not even " +
				"a fix. Nodes that have started an update finish it.",
			link: func(x *request) string { return textIf(!x.pool().Object.Spec.Paused, "Pause…") },
			fields: func(*request) []view.ActionField {
				return []view.ActionField{becauseField("the pool"), untilField("somebody resumes the pool")}
			},
			facts: (*request).pauseFacts,
			order: func(x *request) (kube.HoldOrder, error) {
				return kube.Pause(x.fleet.Cluster, x.name, x.reason())
			},
		},
		{
			kind: kube.KindPool, verb: "resume", title: "Resume pool", button: "Resume the pool", event: "Resumed",
			effect: "The controller assigns configs to the nodes of this pool again, as its rollout allows.",
			link:   (*request).resumeLink, fields: (*request).resumeFields,
			facts: (*request).resumeFacts, order: (*request).resumeOrder,
		},
		{
			kind: kube.KindPool, verb: "hold", title: "Hold pool", button: "Hold the pool", danger: true, event: "Held",
			effect: "The pool gets the config of the commit that you choose, and newer commits do not reach it until " +
				"somebody releases it. Its nodes keep this config, or return to it as the rollout allows. New " +
				"machines get it too. The repository does not change.",
			link: func(x *request) string {
				return textIf(kube.CanHold(x.fleet.Cluster, x.name), "Hold…")
			},
			fields: (*request).holdFields, facts: (*request).holdFacts, order: (*request).holdOrder,
		},
		{
			kind: kube.KindPool, verb: "release", title: "Release pool", button: "Release the pool", event: "Released",
			effect: "The hold ends: the controller renders the newest revision of the pool's sources, and rolls it " +
				"out.",
			link: func(x *request) string { return textIf(fleet.HeldBy(x.pool().Object) != "", "Release…") },
			order: func(x *request) (kube.HoldOrder, error) {
				return kube.Release(x.fleet.Cluster, x.name, x.who)
			},
		},
		{
			kind: kube.KindPool, verb: "retry", title: "Retry pool", button: "Retry", event: "RetryRequested",
			effect: "A halted or reverted rollout continues with the same config, and its failed nodes try it again. " +
				"If a node fails again, the rollout halts again. Remove the cause first.",
			link:  (*request).retryLink,
			order: (*request).retryPool,
		},
		{
			kind: kube.KindNode, verb: "retry", title: "Retry node", button: "Retry", event: "RetryRequested",
			effect: "Only this node tries its failed config once more. Remove the cause first.",
			link: func(x *request) string {
				row, _ := x.fleet.Find(x.name)
				// What somebody changed on the node, its daemon looks at without a request.
				return textIf(row.Step == fleet.StepFailed &&
					inspect.FailureCause(x.fleet, row) != v1alpha1.FailureDrift, "Retry…")
			},
			order: func(x *request) (kube.HoldOrder, error) {
				return kube.RetryNode(x.fleet, x.name)
			},
		},
		{
			kind: kube.KindSource, verb: "suspend", title: "Suspend GitSource", button: "Suspend the GitSource",
			danger: true, event: "Suspended",
			effect: "New commits have no effect until somebody resumes the GitSource, and the controller restores no " +
				"objects that users change on the cluster. Rollouts of the applied revision continue; to stop one, " +
				"pause its pool.",
			link: func(x *request) string { return textIf(!x.source().Spec.IsSuspended(x.fleet.Now), "Suspend…") },
			fields: func(*request) []view.ActionField {
				return []view.ActionField{becauseField("the GitSource"), untilField("somebody resumes the GitSource")}
			},
			facts: (*request).suspendFacts,
			order: func(x *request) (kube.HoldOrder, error) {
				return kube.Suspend(x.fleet.Cluster, x.name, x.reason(), x.fleet.Now)
			},
		},
		{
			kind: kube.KindSource, verb: "resume", title: "Resume GitSource", button: "Resume the GitSource",
			event: "Resumed",
			effect: "The controller follows the repository again: it applies the newest commit, and restores what " +
				"users changed of its objects.",
			link: func(x *request) string { return textIf(x.source().Spec.IsSuspended(x.fleet.Now), "Resume…") },
			order: func(x *request) (kube.HoldOrder, error) {
				return kube.ResumeSource(x.fleet.Cluster, x.name, x.fleet.Now)
			},
		},
	}
}

func textIf(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// exists returns an error if the cluster does not have the object.
func (a *action) exists(x *request) error {
	var err error
	switch a.kind {
	case kube.KindPool:
		_, err = x.fleet.FindPool(x.name)
	case kube.KindNode:
		_, err = x.fleet.FindNode(x.name)
	default:
		if x.source() == nil {
			err = fmt.Errorf("there is no GitSource %q: kubectl get gitsources lists those of the cluster", x.name)
		}
	}
	if err != nil {
		return cli.Invalid(err)
	}
	return nil
}

// pool is not nil after exists.
func (x *request) pool() *fleet.Pool { return x.fleet.PoolByName[x.name] }

// source is nil if it does not exist.
func (x *request) source() *v1alpha1.GitSource {
	at := slices.IndexFunc(x.fleet.Sources, func(s v1alpha1.GitSource) bool { return s.Name == x.name })
	if at < 0 {
		return nil
	}
	return &x.fleet.Sources[at]
}

func becauseField(what string) view.ActionField {
	return view.ActionField{
		Name: fieldBecause, Label: "Reason", Required: true, Most: mostReason,
		Hint: "In a few words. Everybody who sees " + what + " sees them, with your name.",
	}
}

func untilField(end string) view.ActionField {
	return view.ActionField{
		Name: fieldUntil, Label: "Until", Most: mostField, Hint: "A time such as 2026-12-01T08:00:00Z, or a duration " +
			"such as 2h or 3d. Empty: until " + end + ".",
	}
}

// reason reads the fields of a stop.
func (x *request) reason() kube.HoldReason {
	because := strings.TrimSpace(x.form.Get(fieldBecause))
	switch {
	case because == "":
		x.problems[fieldBecause] = "Say why, so that others know."
	case utf8.RuneCountInString(because) > mostReason:
		x.problems[fieldBecause] = fmt.Sprintf("This text has more than %d characters.", mostReason)
	case !utf8.ValidString(because):
		x.problems[fieldBecause] = "This text is not UTF-8."
	}
	until, err := cli.ParseUntil(strings.TrimSpace(x.form.Get(fieldUntil)), x.fleet.Now)
	x.note(fieldUntil, err)
	return kube.HoldReason{Who: x.who, Because: because, Until: until}
}

// note records the problem of a field, without the name of the flag that has the same value on the command line.
func (x *request) note(field string, err error) {
	if err != nil {
		x.problems[field] = strings.TrimPrefix(err.Error(), "--"+field+" ")
	}
}

// moves returns how many nodes of the pool are being updated and how many wait.
func (x *request) moves() (facts []string) {
	why, err := inspect.WhyPoolOf(x.fleet, x.name)
	if err != nil {
		return nil
	}
	c := why.Pool.PoolCounts
	switch {
	case c.Busy == 1:
		facts = append(facts, "1 node is being updated, and finishes.")
	case c.Busy > 1:
		facts = append(facts, fmt.Sprintf("%d nodes are being updated, and finish.", c.Busy))
	}
	switch {
	case c.Waiting == 1:
		facts = append(facts, "1 node waits for its config.")
	case c.Waiting > 1:
		facts = append(facts, fmt.Sprintf("%d nodes wait for their config.", c.Waiting))
	}
	if len(facts) == 0 {
		facts = append(facts, "No node is being updated, and none waits.")
	}
	return facts
}

func (x *request) pauseFacts() []string {
	facts := x.moves()
	if p := x.pool().Object; p.Spec.Paused {
		facts = append(facts, "The pool is paused"+fleet.PausedBy(p)+". The new reason and the new end replace these.")
	}
	return facts
}

func (x *request) resumeLink() string {
	w := x.fleet.Window(x.pool())
	switch {
	case x.pool().Object.Spec.Paused:
		return "Resume…"
	case w == nil || w.Open:
		return ""
	case w.OpenUntil != nil:
		return "Change the opening…"
	default:
		return "Open outside the windows…"
	}
}

func (x *request) resumeFields() []view.ActionField {
	if x.fleet.Window(x.pool()) == nil {
		return nil
	}
	hint := "Such as 30m, 2h or 1d; with 0, the windows apply again."
	required := !x.pool().Object.Spec.Paused
	if !required {
		hint += " Empty: no change."
	}
	return []view.ActionField{{
		Name: fieldOpenFor, Label: "Assign configs outside the maintenance windows for", Most: mostField,
		Required: required, Hint: hint,
	}}
}

func (x *request) resumeFacts() []string {
	p := x.pool().Object
	var facts []string
	if p.Spec.Paused {
		facts = append(facts, "The pool is paused"+fleet.PausedBy(p)+".")
	} else {
		facts = append(facts, "The pool is not paused.")
	}
	if w := x.fleet.Window(x.pool()); w != nil {
		facts = append(facts, "Its maintenance windows are "+w.Text(x.fleet.Now)+".")
	}
	if held := fleet.HeldBy(p); held != "" {
		facts = append(facts, "The pool is held"+held+", and stays so.")
	}
	return append(facts, x.moves()...)
}

func (x *request) resumeOrder() (kube.HoldOrder, error) {
	var open *time.Duration
	if text := strings.TrimSpace(x.form.Get(fieldOpenFor)); text != "" {
		var span cli.Span
		err := span.Set(text)
		if err == nil {
			err = cli.CheckOpening(time.Duration(span))
		}
		x.note(fieldOpenFor, err)
		open = (*time.Duration)(&span)
	} else if fields := x.resumeFields(); len(fields) > 0 && fields[0].Required {
		x.problems[fieldOpenFor] = "Say for how long."
	}
	return kube.Resume(x.fleet, x.name, open)
}

func (x *request) holdFields() []view.ActionField {
	offers := kube.HoldOffers(x.fleet.Cluster, x.name)
	if len(offers) == 0 {
		return nil
	}
	at := view.ActionField{Name: fieldAt, Label: "Commit", Required: true}
	if more := len(offers) - mostOffers; more > 0 {
		at.Hint = fmt.Sprintf("%s left out. The command line accepts them too.", fleet.Count(more, "older commit"))
		offers = offers[:mostOffers]
	}
	for _, o := range offers {
		text := o.Text
		if o.IsNow {
			text += " (the pool's config now)"
		}
		at.Options = append(at.Options, view.ActionOption{Value: o.Revision, Text: text})
	}
	return []view.ActionField{at, becauseField("the pool"), untilField("somebody releases the pool")}
}

func (x *request) holdFacts() []string {
	p := x.pool().Object
	facts := x.moves()
	if held := fleet.HeldBy(p); held != "" {
		facts = append(facts, "The pool is held"+held+". The new commit, reason and end replace these, and the nodes "+
			"go to the new commit directly.")
	}
	if p.Spec.Paused {
		facts = append(facts, "The pool is paused"+fleet.PausedBy(p)+", so no node moves before somebody resumes it.")
	}
	isRead := func(r fleet.RenderedRow) bool { return !r.Created.IsZero() }
	if !slices.ContainsFunc(x.fleet.Rendered, isRead) {
		facts = append(facts, "You may not read MachineConfigs, so only commits whose config a pool or a node names "+
			"are known. ClusterRole bunsen-config-viewer grants that right.")
	}
	if !kube.CanHold(x.fleet.Cluster, x.name) {
		facts = append(facts, "No commit is known whose config for this pool is on the cluster.")
	}
	return facts
}

func (x *request) holdOrder() (kube.HoldOrder, error) {
	why, at := x.reason(), x.form.Get(fieldAt)
	if at == "" {
		x.problems[fieldAt] = "Choose a commit."
		return kube.HoldOrder{}, nil
	}
	o, err := kube.Hold(x.fleet.Cluster, x.name, at, why)
	x.note(fieldAt, err)
	return o, nil
}

func (x *request) retryLink() string {
	o, err := x.retryPool()
	return textIf(err == nil && len(o.Changes) > 0, "Retry…")
}

// retryPool is the same each time: the link and the question about rights of one page need it both.
func (x *request) retryPool() (kube.HoldOrder, error) {
	if x.retry == nil {
		o, err := kube.RetryPool(x.fleet, x.name, x.who)
		if err != nil {
			return o, err
		}
		x.retry = &o
	}
	return *x.retry, nil
}

func (x *request) suspendFacts() []string {
	src := x.source()
	facts := []string{"No revision is applied yet."}
	if applied := src.Status.AppliedRevision; applied != "" {
		facts[0] = "Revision " + fleet.ShortRevision(applied) + " is applied, and stays so."
	}
	if src.Spec.IsSuspended(x.fleet.Now) {
		facts = append(facts, "The GitSource is suspended"+fleet.SuspendedBy(src)+". The new reason and the new end "+
			"replace these.")
	}
	return facts
}

// effects say what the order of an action without fields would do, and whether it would change anything.
func (a *action) effects(x *request) (facts []string, changes bool) {
	o, err := a.order(newRequest(x.fleet, x.name, x.who, nil))
	if err != nil {
		return []string{err.Error()}, false
	}
	for _, change := range o.Changes {
		facts = append(facts, change.Did)
	}
	return append(atMost(facts), o.Notes...), len(o.Changes) > 0
}

// atMost returns the first lines, and says how many more there are.
func atMost(lines []string) []string {
	if more := len(lines) - mostLines; more > 0 {
		return append(lines[:mostLines:mostLines], fmt.Sprintf("and %d more", more))
	}
	return lines
}
