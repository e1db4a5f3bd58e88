package inspect

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// Trace is the way back from a node, or a rendered config, to the commit and its lines.
type Trace struct {
	// Node that was asked about; nil where a rendered config was.
	Node *NodeTrace `json:"node,omitempty"`
	// Rendered config in force, and what produced it.
	Rendered RenderedTrace `json:"rendered"`
	// AskedBy is the commit that asked last for this content, as a revert does; absent where that is Rendered's, where no commit asked,
	// or where it is not known.
	AskedBy *CommitTrace `json:"askedBy,omitempty"`
	// API are the changes through the API that asked last for this content. Unless AlsoCommit is set, no commit asked for it, and InForce
	// is the revision that was applied at that time.
	API        []v1alpha1.APIChange `json:"api,omitempty"`
	AlsoCommit bool                 `json:"alsoCommit,omitempty"`
	InForce    string               `json:"inForce,omitempty"`
	// Asked lists the revisions that asked for this very content since, newest first; a revert shows here.
	Asked []string `json:"asked,omitempty"`
	// Inputs in the order of their names.
	Inputs []InputTrace `json:"inputs"`
	// Items with the lines that set them, where the repository was at hand.
	Items []ItemTrace `json:"items,omitempty"`
	// Note says what could not be found out, and why.
	Note string `json:"note,omitempty"`
}

// NodeTrace is the node's part.
type NodeTrace struct {
	Name    string `json:"name"`
	Current string `json:"current"`
	Desired string `json:"desired"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// RenderedTrace is the rendered config's part: the commit that first produced its content.
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

// InputTrace is one MachineConfig that went into it.
type InputTrace struct {
	Name string `json:"name"`
	// Files of the repository it was made from; none for one made through the API.
	Files []string `json:"files,omitempty"`
	// Changed tells that the live object is no longer what went in; of one made through the API that is not known.
	Changed bool `json:"changed,omitempty"`
	// Gone tells that the cluster has no object of that name any more.
	Gone bool `json:"gone,omitempty"`
}

// ItemTrace is one thing on the node and its place in the repository.
type ItemTrace struct {
	Item  string `json:"item"`
	Place string `json:"place"`
}

// TraceRendered reads what a rendered config says about itself. Live are the fragments on the cluster now, sources the
// GitSources, and pool the annotations of the pool that it was rendered for, nil where the pool is gone.
func TraceRendered(mc *mcfgv1.MachineConfig, live map[string]*mcfgv1.MachineConfig, sources []v1alpha1.GitSource, pool map[string]string) (Trace, error) {
	a := mc.Annotations
	t := Trace{Rendered: RenderedTrace{
		Name: mc.Name, Source: a[v1alpha1.SourceAnnotation], Repository: a[v1alpha1.RepositoryAnnotation],
		Revision: a[v1alpha1.RevisionAnnotation], Subject: a[v1alpha1.CommitSubjectAnnotation],
		Author: a[v1alpha1.CommitAuthorAnnotation], Time: a[v1alpha1.CommitTimeAnnotation], VerifiedBy: a[v1alpha1.VerifiedByAnnotation],
	}}
	t.Rendered.Pool = poolOf(mc)
	inputs := map[string]string{}
	if raw := a[v1alpha1.InputsAnnotation]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &inputs); err != nil {
			return t, fmt.Errorf("reading annotation %s of MachineConfig %q: %w", v1alpha1.InputsAnnotation, mc.Name, err)
		}
	}
	for name, digest := range inputs {
		in := InputTrace{Name: name}
		if m, ok := live[name]; ok {
			in.Files = filesOf(m)
			in.Changed = m.Annotations[v1alpha1.DigestAnnotation] != "" && m.Annotations[v1alpha1.DigestAnnotation] != digest
		} else {
			in.Gone = true
		}
		t.Inputs = append(t.Inputs, in)
	}
	slices.SortFunc(t.Inputs, func(x, y InputTrace) int { return strings.Compare(x.Name, y.Name) })
	t.setRequester(tracedRequester(mc, sources, pool))
	for i := range sources {
		for _, h := range sources[i].Status.History {
			if h.Pools[t.Rendered.Pool] == mc.Name {
				t.Asked = append(t.Asked, shortRevision(h.Revision)+" "+source.Quote(h.Subject))
			}
		}
	}
	return t, nil
}

// OfNode adds the node's part.
func (t *Trace) OfNode(n *corev1.Node) {
	a := n.Annotations
	t.Node = &NodeTrace{
		Name: n.Name, Current: a[v1alpha1.CurrentConfigAnnotation], Desired: a[v1alpha1.DesiredConfigAnnotation],
		State: a[v1alpha1.StateAnnotation], Reason: a[v1alpha1.ReasonAnnotation],
	}
}

func filesOf(mc *mcfgv1.MachineConfig) []string {
	var files []struct {
		File string `json:"file"`
	}
	if json.Unmarshal([]byte(mc.Annotations[v1alpha1.FileAnnotation]), &files) != nil {
		return nil // made through the API, or edited by hand: there is no origin to show
	}
	out := make([]string, len(files))
	for i, f := range files {
		out[i] = f.File
	}
	return out
}

// Text prints the blocks upwards: node, rendered config, commit, source, then the lines.
func (t Trace) Text() string {
	var b strings.Builder
	row := func(head, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s%s\n", head, fmt.Sprintf(format, args...))
	}
	if n := t.Node; n != nil {
		way := dash(n.Current)
		if n.Desired != n.Current {
			way += " → " + dash(n.Desired)
		}
		row("Node:", "%s   %s   (%s)", n.Name, way, dash(n.State))
		if n.Reason != "" {
			row("Reason:", "%s", n.Reason)
		}
	}
	r := t.Rendered
	row("Rendered:", "%s", r.Name)
	row("Pool:", "%s", dash(r.Pool))
	t.commitRows(row)
	row("Source:", "%s   %s", dash(r.Source), r.Repository)
	for i, a := range t.Asked {
		head := ""
		if i == 0 {
			head = "Asked by:"
		}
		row(head, "%s", a)
	}
	for i, in := range t.Inputs {
		head := ""
		if i == 0 {
			head = "Made of:"
		}
		row(head, "%s", in.text())
	}
	if len(t.Items) > 0 {
		items := Table{Head: []string{"ITEM", "SET BY"}}
		for _, it := range t.Items {
			items.Rows = append(items.Rows, []string{it.Item, it.Place})
		}
		b.WriteString("\n" + items.String())
	}
	if t.Note != "" {
		b.WriteString("\n" + t.Note + "\n")
	}
	return b.String()
}

// text is the input in one line: its name, and where it comes from.
func (in InputTrace) text() string {
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

// commitRows prints who asked for the rendered config, and the commit that first produced it.
func (t Trace) commitRows(row func(head, format string, args ...any)) {
	r := t.Rendered
	commit := CommitTrace{dash(r.Revision), r.Subject, r.Author, r.Time}.text()
	if r.VerifiedBy != "" {
		commit += "   verified " + r.VerifiedBy
	}
	if len(t.API) > 0 {
		row("Change:", "%s", v1alpha1.Requester{API: t.API}.APIText())
	}
	switch c := t.AskedBy; {
	case len(t.API) > 0 && !t.AlsoCommit && r.Revision == "": // the pool has nothing from git
	case len(t.API) > 0 && !t.AlsoCommit && r.Revision == t.InForce:
		row("In force:", "%s", commit)
	case len(t.API) > 0 && !t.AlsoCommit:
		row("First by:", "%s", commit)
	case c != nil:
		row("Commit:", "%s", c.text())
		row("First by:", "%s", commit)
	default:
		row("Commit:", "%s", commit)
	}
}
