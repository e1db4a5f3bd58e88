package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
	"github.com/bunsen-os/bunsen/internal/terminal"
	"github.com/bunsen-os/bunsen/source"
)

// Trace leads from a node, or a rendered config, to the commit and its lines.
type Trace struct {
	// Node that the user asked about; nil if she asked about a rendered config.
	Node *TraceNode `json:"node,omitempty"`
	// Rendered config in force, with the commit that produced it.
	Rendered RenderedTrace `json:"rendered"`
	// AskedBy is the commit that last requested the content, for example a revert; nil if it is that of Rendered, if
	// none did, or if unknown.
	AskedBy *CommitTrace `json:"askedBy,omitempty"`
	// API are the changes that last requested the content, unless AlsoCommit alone. InForce is the revision that was
	// applied then.
	API        []v1alpha1.APIChange `json:"api,omitempty"`
	AlsoCommit bool                 `json:"alsoCommit,omitempty"`
	InForce    string               `json:"inForce,omitempty"`
	// Asked lists later revisions that requested the same content, such as a revert, newest first.
	Asked []string `json:"asked,omitempty"`
	// Secrets is nil if the config refers to none.
	Secrets *fleet.ConfigSecrets `json:"secrets,omitempty"`
	// Inputs are sorted by name.
	Inputs []TraceInput `json:"inputs"`
	// Items are the files, units and users, with the lines that set them if the repository was available.
	Items []TraceItem `json:"items,omitempty"`
	// Note says what is unknown, and why.
	Note string `json:"note,omitempty"`
	// one item was asked for.
	one bool
}

// TraceNode is the part of a trace about the node.
type TraceNode struct {
	Name    string                 `json:"name"`
	Current v1alpha1.ConfigVersion `json:"current"`
	Desired v1alpha1.ConfigVersion `json:"desired"`
	State   string                 `json:"state"`
	Reason  string                 `json:"reason,omitempty"`
	// Drift are the items that are not as the config says, because somebody changed them on the node.
	Drift []v1alpha1.DriftItem `json:"drift,omitempty"`
}

// RenderedTrace is the part of a trace about the rendered config, with the commit that first produced its content.
type RenderedTrace struct {
	Name       string `json:"name"`
	Pool       string `json:"pool"`
	Source     string `json:"source"`
	Repository string `json:"repository"`
	Revision   string `json:"revision"`
	Subject    string `json:"subject"`
	Author     string `json:"author"`
	Time       string `json:"time"`
	VerifiedBy string `json:"verifiedBy,omitempty"`
}

// CommitTrace is a commit of a source's history.
type CommitTrace struct {
	Revision string `json:"revision"`
	Subject  string `json:"subject"`
	Author   string `json:"author"`
	Time     string `json:"time"`
}

// TraceInput is one MachineConfig that the rendered config contains.
type TraceInput struct {
	Name string `json:"name"`
	// Files of the repository; none if a user created the MachineConfig through the API.
	Files []string `json:"files,omitempty"`
	// Changed: the live object differs from the rendered content. For one that a user created through the API, that is
	// unknown, and false.
	Changed bool `json:"changed,omitempty"`
	// Gone from the cluster.
	Gone bool `json:"gone,omitempty"`
}

// TraceItem is one item on the node with its place in the repository.
type TraceItem struct {
	Item  string `json:"item"`
	Place string `json:"place,omitempty"`
	// Changed is the row of the pool's history that changed the item last. NotSince: that row is only the earliest
	// one that could be compared, and did not change it.
	Changed  *Row `json:"lastChanged,omitempty"`
	NotSince bool `json:"notSince,omitempty"`
}

// TraceRendered reads the annotations of a rendered config. The parameters live and sources have the fragments and the
// GitSources on the cluster, and pool the annotations of the config's pool, nil if it was deleted.
func TraceRendered(mc *mcfgv1.MachineConfig, live map[string]*mcfgv1.MachineConfig, sources []v1alpha1.GitSource,
	pool map[string]string,
) (Trace, error) {
	a := mc.Annotations
	t := Trace{Rendered: RenderedTrace{
		Name: mc.Name, Source: a[v1alpha1.SourceAnnotation], Repository: a[v1alpha1.RepositoryAnnotation],
		Revision: a[v1alpha1.RevisionAnnotation], Subject: a[v1alpha1.CommitSubjectAnnotation],
		Author: a[v1alpha1.CommitAuthorAnnotation], Time: a[v1alpha1.CommitTimeAnnotation],
		VerifiedBy: a[v1alpha1.VerifiedByAnnotation],
	}}
	t.Rendered.Pool = poolOf(mc)
	inputs := map[string]string{}
	if raw := a[v1alpha1.InputsAnnotation]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &inputs); err != nil {
			return t, fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation, mc.Name,
				err)
		}
	}
	for name, digest := range inputs {
		in := TraceInput{Name: name}
		if m, ok := live[name]; ok {
			in.Files = FilesOf(m)
			in.Changed = m.Annotations[v1alpha1.DigestAnnotation] != "" &&
				m.Annotations[v1alpha1.DigestAnnotation] != digest
		} else {
			in.Gone = true
		}
		t.Inputs = append(t.Inputs, in)
	}
	slices.SortFunc(t.Inputs, func(x, y TraceInput) int { return strings.Compare(x.Name, y.Name) })
	t.setRequester(tracedRequester(mc, sources, pool))
	for i := range sources {
		for _, h := range sources[i].Status.History {
			if h.Pools[t.Rendered.Pool] == mc.Name {
				t.Asked = append(t.Asked, fleet.ShortRevision(h.Revision)+" "+source.Quote(h.Subject))
			}
		}
	}
	return t, nil
}

// AddSecrets adds the published changes and problems of the config's secrets.
func (t *Trace) AddSecrets(mc *mcfgv1.MachineConfig, published fleet.Secrets) {
	var files []machineconfig.SecretFile
	c, err := machineconfig.Parse(mc.Spec)
	if err == nil {
		files, err = machineconfig.SecretFiles(c)
	}
	t.Secrets = published.Of(mc.Name, err != nil || len(files) > 0)
	if mc.Annotations[v1alpha1.VariantOfAnnotation] == "" {
		return
	}
	objects := map[string]bool{}
	for _, f := range files {
		for _, r := range f.Content.References() {
			objects[string(r.Kind)+":"+r.Name] = true
		}
	}
	t.Secrets = t.Secrets.About(objects)
}

// AddChanges says which row of the pool's history changed each item of the config last, as far as the MachineConfigs of
// the cluster tell. For a config of single nodes they do not, because the configs before are in other objects.
func (t *Trace) AddChanges(f *fleet.Fleet, live map[string]*mcfgv1.MachineConfig) error {
	h, err := Of(f, t.Rendered.Pool)
	mc := live[t.Rendered.Name]
	if err != nil || mc == nil || mc.Annotations[v1alpha1.VariantOfAnnotation] != "" {
		return nil // The pool was deleted, or it says nothing about the config.
	}
	config, err := machineconfig.Parse(mc.Spec)
	if err != nil {
		return fmt.Errorf("reading MachineConfig %q: %w", mc.Name, err)
	}
	keys := map[string]ItemKey{}
	for _, c := range disruption.Compare(machineconfig.Config{}, config) {
		if c.Kind == disruption.KindFile || c.Kind == disruption.KindUnit || c.Kind == disruption.KindUser {
			keys[string(c.Kind)+" "+c.Name] = ItemKey{c.Kind, c.Name}
		}
	}
	rows, err := h.LastChanges(mc.Name, slices.Collect(maps.Values(keys)),
		func(name string) (machineconfig.Config, bool, error) {
			mc := live[name]
			if mc == nil {
				return machineconfig.Config{}, false, nil
			}
			c, err := machineconfig.Parse(mc.Spec)
			return c, true, err
		})
	if err != nil || len(rows) == 0 {
		return err
	}
	if len(t.Items) == 0 {
		for _, item := range slices.Sorted(maps.Keys(keys)) {
			t.Items = append(t.Items, TraceItem{Item: item})
		}
	}
	for i := range t.Items {
		it := &t.Items[i]
		if last, known := rows[keys[it.Item]]; known {
			it.Changed, it.NotSince = &h.Rows[last.Row], last.Unchanged
		}
	}
	return nil
}

// Only keeps an item by its name, such as /etc/motd or chronyd.service.
func (t *Trace) Only(name string) error {
	var items []TraceItem
	for _, it := range t.Items {
		if _, of, _ := strings.Cut(it.Item, " "); of == name || it.Item == name {
			items = append(items, it)
		}
	}
	if items == nil && t.Note == "" {
		return fmt.Errorf("%s has no file, unit or user %q; `bunsen trace` without it lists them", t.Rendered.Name,
			name)
	}
	t.Items, t.one = items, true
	return nil
}

// drift is how an item differs on the node; nil if it does not.
func (t Trace) drift(it TraceItem) *v1alpha1.DriftItem {
	if t.Node == nil {
		return nil
	}
	kind, name, _ := strings.Cut(it.Item, " ")
	for i := range t.Node.Drift {
		d := &t.Node.Drift[i]
		isOf := d.Name == name
		switch disruption.ChangeKind(kind) {
		case disruption.KindUser:
			isOf = d.Name == "user/"+name
		case disruption.KindUnit: // its file and its drop-ins, too
			at := path.Join(nodepath.UnitDir, name)
			isOf = isOf || d.Name == at || strings.HasPrefix(d.Name, at+".d/")
		}
		if isOf {
			return d
		}
	}
	return nil
}

// changedBy is who changed an item last, as text.
func (t Trace) changedBy(it TraceItem) string {
	d := t.drift(it)
	if d == nil {
		return it.changedBy()
	}
	at := d.Since
	if d.Modified != nil {
		at = *d.Modified
	}
	return "by hand on " + t.Node.Name + " at " + at.UTC().Format("2006-01-02 15:04:05 UTC") +
		", by whom is not recorded" + beforeThat + it.changedBy()
}

// beforeThat stands between what was changed by hand and the commit before it.
const beforeThat = "; before that "

// changedBy is which row of the pool's history changed the item last, as text.
func (it TraceItem) changedBy() string {
	if it.Changed == nil {
		return "-"
	}
	l := it.Changed.Line()
	if it.Changed.IsOfCommit() { // Who held, released or retried it did not write it.
		l.Subject = it.Changed.Subject
	}
	text := it.Changed.ShortCommit() + " " + source.Quote(l.Subject) + " " + l.Author
	if it.NotSince {
		return "before " + text
	}
	return text
}

// OfNode adds the part about the node.
func (t *Trace) OfNode(n *corev1.Node) {
	a := n.Annotations
	t.Node = &TraceNode{
		Name: n.Name, Current: v1alpha1.ReportedConfig(a), Desired: v1alpha1.AssignedConfig(a),
		State: a[v1alpha1.StateAnnotation], Reason: v1alpha1.TruncateReason(a[v1alpha1.ReasonAnnotation]),
	}
	if drift, err := v1alpha1.ParseDrift(a[v1alpha1.DriftAnnotation]); err == nil { // an invalid one counts as absent
		t.Node.Drift = drift.Items
	}
	for i := range t.Inputs {
		t.Inputs[i].Files = slices.DeleteFunc(t.Inputs[i].Files, func(file string) bool {
			_, rest, isOfNode := strings.Cut(file, "/nodes/")
			return isOfNode && strings.HasPrefix(file, "pools/") && !strings.HasPrefix(rest, n.Name+"/")
		})
	}
}

// FilesOf returns the files of a repository in which a MachineConfig is; nil if a user created or edited it.
func FilesOf(mc *mcfgv1.MachineConfig) []string {
	var files []struct {
		File string `json:"file"`
	}
	if json.Unmarshal([]byte(mc.Annotations[v1alpha1.FileAnnotation]), &files) != nil {
		return nil // The object has no origin: a user created it through the API or edited it.
	}
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.File
	}
	return out
}

// Text prints the blocks in this order: node, rendered config, commit, source, lines. If one item was asked for, it
// prints that and where it is.
func (t Trace) Text() string {
	var b terminal.Labels
	if t.one {
		for _, it := range t.Items {
			last, before, _ := strings.Cut(t.changedBy(it), beforeThat)
			b.Add("Item", it.Item)
			b.Add("Changed", last)
			b.Add("Before", before)
			b.Add("Set by", terminal.Dash(it.Place))
		}
	}
	if n := t.Node; n != nil {
		way := terminal.Dash(n.Current.String())
		if n.Desired != n.Current {
			way += " → " + terminal.Dash(n.Desired.String())
		}
		b.Add("Node", fmt.Sprintf("%s   %s   (%s)", n.Name, way, terminal.Dash(n.State)))
	}
	if t.one && t.Node == nil {
		b.Add("Rendered", t.Rendered.Name)
	}
	if t.one {
		for _, it := range t.Items {
			if d := t.drift(it); d != nil {
				b.Add("To do", "bunsen drift show node/"+t.Node.Name+" "+fleet.ShellWord(d.Name)+"   # what differs")
			}
		}
	}
	if !t.one {
		t.addConfig(&b)
	}
	if t.Note != "" {
		b.Gap()
		b.Line("%s", t.Note)
	}
	return b.String()
}

// addConfig adds where the config comes from, who asked for it, what it is made of, and what it has.
func (t Trace) addConfig(b *terminal.Labels) {
	if t.Node != nil {
		b.Add("Reason", t.Node.Reason)
	}
	r := t.Rendered
	b.Add("Rendered", r.Name)
	b.Add("Pool", terminal.Dash(r.Pool))
	t.addCommits(b)
	b.Add("Source", terminal.Dash(r.Source)+"   "+r.Repository)
	for _, a := range t.Asked {
		b.Add("Asked by", a)
	}
	for _, text := range t.Secrets.Texts() {
		b.Add("Secret", text)
	}
	for _, text := range t.Secrets.ProblemTexts() {
		b.Add("Problem", text)
	}
	for _, in := range t.Inputs {
		b.Add("Made of", in.text())
	}
	if len(t.Items) > 0 {
		items := terminal.Table{Head: []string{"ITEM", "SET BY", "LAST CHANGED BY"}}
		for _, it := range t.Items {
			items.Rows = append(items.Rows, []string{it.Item, terminal.Dash(it.Place), t.changedBy(it)})
		}
		b.Gap()
		b.Text(items)
	}
}

// text has the name and the origin.
func (in TraceInput) text() string {
	text := in.Name + "   "
	switch {
	case in.Gone:
		return text + "(gone from the cluster since)"
	case len(in.Files) == 0:
		text += "made through the API"
	default:
		text += strings.Join(in.Files, ", ")
	}
	if in.Changed {
		text += "   (changed since)"
	}
	return text
}

// InputTexts returns a text with name and files for each input that is on the cluster, by its name.
func (t Trace) InputTexts() map[string]string {
	out := map[string]string{}
	for _, in := range t.Inputs {
		if !in.Gone {
			out[in.Name] = in.text()
		}
	}
	return out
}

// Commits prints the rendered config, its requesters, and its source, each on a line.
func (t Trace) Commits() string {
	var b terminal.Labels
	t.addCommits(&b)
	b.Add("Source", terminal.Dash(t.Rendered.Source)+"   "+t.Rendered.Repository)
	for _, a := range t.Asked {
		b.Add("Asked by", a)
	}
	return b.String()
}

func (t Trace) addCommits(b *terminal.Labels) {
	r := t.Rendered
	commit := CommitTrace{terminal.Dash(r.Revision), r.Subject, r.Author, r.Time}.text()
	if r.VerifiedBy != "" {
		commit += "   verified " + r.VerifiedBy
	}
	if len(t.API) > 0 {
		b.Add("Change", v1alpha1.Requester{API: t.API}.APIText())
	}
	switch c := t.AskedBy; {
	case len(t.API) > 0 && !t.AlsoCommit && r.Revision == "": // The pool has no config from git.
	case len(t.API) > 0 && !t.AlsoCommit && r.Revision == t.InForce:
		b.Add("In force", commit)
	case len(t.API) > 0 && !t.AlsoCommit:
		b.Add("First by", commit)
	case c != nil:
		b.Add("Commit", c.text())
		b.Add("First by", commit)
	default:
		b.Add("Commit", commit)
	}
}

// tracedRequester returns who requested a rendered config last, and the time of the commit if known: from the pool's
// own records as for events, else from the histories of the GitSources, else from the config's annotations.
func tracedRequester(mc *mcfgv1.MachineConfig, sources []v1alpha1.GitSource,
	pool map[string]string,
) (v1alpha1.Requester, string) {
	asked := v1alpha1.RequesterOf(pool, mc.Name)
	for i := range sources {
		history := sources[i].Status.History
		if asked.Revision == "" && len(asked.API) == 0 {
			if c := v1alpha1.AskedBy(history, poolOf(mc), mc.Name); c != nil {
				asked = v1alpha1.Requester{Revision: c.Revision, Subject: c.Subject, Author: c.Author}
			}
		}
		for _, h := range history {
			if h.Revision != asked.Revision || asked.Revision == "" || asked.ByAPI() {
				continue
			}
			if asked.Subject == "" { // An older record of a pool has only the revision.
				asked.Subject, asked.Author = h.Subject, h.Author
			}
			if h.Time.IsZero() {
				return asked, ""
			}
			return asked, h.Time.UTC().Format(time.RFC3339)
		}
	}
	if asked.Revision == "" && len(asked.API) == 0 {
		asked = v1alpha1.ParseConfigRequest(mc.Annotations[v1alpha1.RequestAnnotation], mc.Name)
	}
	return asked, ""
}

func (t *Trace) setRequester(asked v1alpha1.Requester, committed string) {
	t.API, t.AlsoCommit = asked.API, asked.AlsoCommit
	if asked.ByAPI() {
		t.InForce = asked.Revision
		return
	}
	if asked.Revision == "" || asked.Revision == t.Rendered.Revision {
		return
	}
	t.AskedBy = &CommitTrace{Revision: asked.Revision, Subject: asked.Subject, Author: asked.Author, Time: committed}
}

// text leaves out what is unknown.
func (c CommitTrace) text() string {
	parts := []string{c.Revision}
	if c.Subject != "" {
		parts = append(parts, source.Quote(c.Subject))
	}
	for _, part := range []string{c.Author, c.Time} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "   ")
}
