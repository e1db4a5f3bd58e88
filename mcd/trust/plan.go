package trust

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/mcd/host"
	"github.com/bunsen-os/bunsen/mcd/plan"
)

// RecordPath is the file with Kept, for root only. It has the pull secret.
const RecordPath = nodepath.StateDir + "/trust.json"

// Kept is what the daemon stores on the machine. A plan writes it with the files, so that it is true after a crash too.
type Kept struct {
	// Answer is the server's last answer, with the files of Keep.
	Answer v1alpha1.NodeTrust `json:"answer"`
	// Files and Dirs are the paths that the daemon wrote and that belong to it.
	Files []string `json:"files,omitempty"`
	Dirs  []string `json:"dirs,omitempty"`
	// Policy is the disruption policy that was read last.
	Policy disruption.Policy `json:"policy"`
}

// Target is what a machine shall have beside its config in force.
type Target struct {
	// Name is the name of the config in force.
	Name string
	// Kept is what the daemon wrote before. Answer is what it shall write.
	Kept   Kept
	Answer v1alpha1.NodeTrust
	// Machine decides the places of files.
	Machine Machine
	// Old and Want are the sets of files before and after. They do not have the paths of the config in force.
	Old, Want plan.Desired
	// Conflicts are the files that the config in force names. Blocked are those that the machine refuses.
	Conflicts, Blocked []v1alpha1.TrustProblem
	// files are those of Want by path. held are blocked paths that the daemon wrote before.
	files map[string]v1alpha1.TrustFile
	held  map[string]host.Entry
}

// NewTarget returns the target for an answer of the server. The paths of the config in force belong to the config.
func NewTarget(kept Kept, answer v1alpha1.NodeTrust, at plan.Desired, m Machine) *Target {
	t := &Target{
		Kept: kept, Answer: Merge(kept.Answer, answer), Machine: m, files: map[string]v1alpha1.TrustFile{},
		held: map[string]host.Entry{},
	}
	names := namesOf(at)
	t.Old, t.Want = plan.Desired{Paths: map[string]host.Entry{}}, plan.Desired{
		Paths: map[string]host.Entry{}, Unset: map[string]plan.Unset{}, Contents: map[host.Digest][]byte{},
	}
	for _, p := range kept.Files {
		if !names.has(p) {
			t.Old.Paths[p] = host.Entry{Kind: host.File}
		}
	}
	for _, p := range kept.Dirs {
		if !names.has(p) {
			t.Old.Paths[p] = host.Entry{Kind: host.Dir}
		}
	}
	for _, sent := range t.Answer.Files {
		for _, f := range m.place(sent) {
			if names.has(f.Path) || names.above[f.Path] {
				t.Conflicts = append(t.Conflicts, v1alpha1.TrustProblem{Path: f.Path, From: f.From})
				continue
			}
			t.want(f, names)
		}
	}
	return t
}

// want adds a file, and the directory of a registry, which is removed with its last file.
func (t *Target) want(f v1alpha1.TrustFile, names names) {
	contents := []byte(f.Contents)
	digest := host.DigestOf(contents)
	t.Want.Contents[digest], t.files[f.Path] = contents, f
	t.Want.Paths[f.Path] = host.Entry{
		Kind: host.File, Mode: uint32(f.Mode),
		Digest: digest,
	} //nolint:gosec // Check: 0644 or 0600
	if dir := path.Dir(f.Path); path.Base(f.Path) == trustfile.RegistryFile && !names.has(dir) {
		t.Want.Paths[dir] = host.Entry{Kind: host.Dir, Mode: 0o755}
		t.Want.Unset[dir] = plan.Unset{Mode: true, User: true, Group: true}
	}
}

// names are the paths that a config names, and the directories above them.
type names struct {
	paths map[string]host.Entry
	above map[string]bool
}

func namesOf(at plan.Desired) names {
	n := names{at.Paths, map[string]bool{}}
	for p := range at.Paths {
		for dir := range disruption.Parents(p) {
			n.above[dir] = true
		}
	}
	return n
}

// has reports whether the config names a path, or a file or link above it.
func (n names) has(p string) bool {
	if _, named := n.paths[p]; named {
		return true
	}
	for dir := range disruption.Parents(p) {
		if e, named := n.paths[dir]; named && e.Kind != host.Dir {
			return true
		}
	}
	return false
}

// Scope returns the part of the machine that Plan needs.
func (t *Target) Scope() plan.Scope {
	s := plan.ScopeOf(t.Old, t.Want)
	s.Paths = append(s.Paths, RecordPath)
	for dir := range disruption.Parents(RecordPath) {
		s.Paths = append(s.Paths, dir)
	}
	slices.Sort(s.Paths)
	s.Paths = slices.Compact(s.Paths)
	return s
}

// Plan returns the steps without actions, and the contents that they write. It leaves out files that the machine
// refuses, and records them in Blocked. changed are the paths of files that the steps change. The caller may call it
// again.
func (t *Target) Plan(observed host.State) (p plan.Plan, contents map[host.Digest][]byte, changed []string, err error) {
	p, contents = plan.Beside(observed, t.Name, t.Old, t.Want)
	for len(p.Refusals) > 0 {
		for _, r := range p.Refusals {
			if !t.block(r.Field, r.Why) {
				return plan.Plan{}, nil, nil, fmt.Errorf("%s: %s", r.Field, r.Why)
			}
		}
		p, contents = plan.Beside(observed, t.Name, t.Old, t.Want)
	}
	for _, s := range p.Steps {
		_, was := t.Old.Paths[s.Target]
		_, is := t.Want.Paths[s.Target]
		if s.IsPath() && (was || is) && s.Before.Entry.Kind != host.Dir && s.After.Entry.Kind != host.Dir {
			changed = append(changed, s.Target)
		}
	}
	slices.Sort(changed)
	return t.addRecord(p, observed, contents), contents, changed, nil
}

// block takes a path, and everything below it, out of the target. The daemon continues to know what it wrote there.
func (t *Target) block(field, why string) bool {
	found := false
	for _, p := range slices.Sorted(maps.Keys(t.Want.Paths)) {
		if p == field || strings.HasPrefix(p, field+"/") {
			if f, isFile := t.files[p]; isFile {
				t.Blocked = append(t.Blocked, v1alpha1.TrustProblem{Path: p, From: f.From, Why: why})
			}
			delete(t.Want.Paths, p)
			found = true
		}
	}
	for _, p := range slices.Sorted(maps.Keys(t.Old.Paths)) {
		if p == field || strings.HasPrefix(p, field+"/") {
			t.held[p] = t.Old.Paths[p]
			delete(t.Old.Paths, p)
			found = true
		}
	}
	return found
}

// addRecord adds the steps that store Kept, if it has changed.
func (t *Target) addRecord(p plan.Plan, observed host.State, contents map[host.Digest][]byte) plan.Plan {
	k := Kept{Answer: t.Answer, Policy: t.Kept.Policy}
	held := maps.Clone(t.held)
	maps.Copy(held, t.Want.Paths)
	for _, at := range slices.Sorted(maps.Keys(held)) {
		if held[at].Kind == host.Dir {
			k.Dirs = append(k.Dirs, at)
		} else {
			k.Files = append(k.Files, at)
		}
	}
	is := observed.Paths[RecordPath]
	if is.Kind == host.Absent && len(k.Files)+len(k.Dirs)+len(k.Answer.Files) == 0 {
		return p
	}
	text, _ := json.Marshal(k) //nolint:errchkjson // text and numbers
	want := host.Entry{Kind: host.File, Mode: 0o600, Digest: host.DigestOf(text)}
	if is == want {
		return p
	}
	contents[want.Digest] = text
	if observed.Paths[nodepath.StateDir].Kind == host.Absent {
		p.Steps = append(p.Steps, plan.Step{
			Verb: host.MakeDir, Target: nodepath.StateDir,
			After: host.Value{Entry: host.Entry{Kind: host.Dir, Mode: 0o700}},
		})
	}
	p.Steps = append(p.Steps, plan.Step{
		Verb: host.Write, Target: RecordPath, Before: host.Value{Entry: is},
		After: host.Value{Entry: want},
	})
	return p
}
