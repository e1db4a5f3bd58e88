package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/nodepath"
	"github.com/bunsen-os/bunsen/api/safetext"
	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/distribution"
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
	t.forgetSecondNames()
	return t
}

// forgetSecondNames takes the paths out of Old that a new link of the machine makes the same file as one of Want. To
// remove such a path would remove the file.
func (t *Target) forgetSecondNames() {
	if len(t.Machine.Links) == 0 {
		return
	}
	wanted := map[string]bool{}
	for p := range t.Want.Paths {
		wanted[t.Machine.real(p)] = true
	}
	maps.DeleteFunc(t.Old.Paths, func(p string, _ host.Entry) bool {
		_, same := t.Want.Paths[p]
		return !same && wanted[t.Machine.real(p)]
	})
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
		blocked := false
		for _, r := range p.Refusals {
			blocked = t.block(r.Field, r.Why) || blocked // false for a path below one that is blocked already
		}
		if r := p.Refusals[0]; !blocked {
			return plan.Plan{}, nil, nil, fmt.Errorf("%s: %s", r.Field, r.Why)
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

// block takes a path, and everything below it, out of the target, and reports whether the target had any of it. The
// daemon continues to know what it wrote there.
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

// maxWhy is the longest reason of a report, in characters.
const maxWhy = 300

// Report returns the report of a machine that has the target. failed is why it does not have it; the machine then has
// what the daemon wrote before.
func (t *Target) Report(failed string, now time.Time) v1alpha1.TrustReport {
	r := v1alpha1.TrustReport{Revision: t.Answer.Revision, Files: len(t.files) - len(t.Blocked), Failed: short(failed)}
	if failed != "" {
		r.Revision, r.Files = t.Kept.Answer.Revision, len(t.Kept.Files)
	}
	r.Conflicts, r.More = capped(t.Conflicts, r.More)
	r.Blocked, r.More = capped(t.Blocked, r.More)
	for i := range r.Blocked {
		r.Blocked[i].Why = short(r.Blocked[i].Why)
	}
	var expiring []v1alpha1.TrustExpiry
	for _, f := range t.Answer.Files {
		if !f.Expires.IsZero() && f.Expires.Before(now.Add(v1alpha1.TrustExpiresSoon)) {
			expiring = append(expiring, v1alpha1.TrustExpiry{
				Path: f.Path, From: f.From,
				Expires: f.Expires.UTC().Truncate(time.Second),
			})
		}
	}
	slices.SortStableFunc(expiring, func(a, b v1alpha1.TrustExpiry) int { return a.Expires.Compare(b.Expires) })
	r.Expiring, r.More = capped(expiring, r.More)
	return r
}

// capped returns the first members of a list, and adds the number of the others.
func capped[T any](all []T, more int) ([]T, int) {
	if n := len(all) - v1alpha1.MaxTrustReport; n > 0 {
		return slices.Clone(all[:v1alpha1.MaxTrustReport]), more + n
	}
	return slices.Clone(all), more
}

func short(text string) string {
	return safetext.Short(text, maxWhy)
}

// Text returns a report as the value of v1alpha1.TrustReportAnnotation; "" for a machine without files of trust.
func Text(r v1alpha1.TrustReport) string {
	if r.Files == 0 && len(r.Conflicts)+len(r.Blocked)+len(r.Expiring) == 0 && r.Failed == "" {
		return ""
	}
	text, _ := json.Marshal(r) //nolint:errchkjson // text, numbers and times
	return string(text)
}

// Actions returns the steps that follow a change of files: the program of the trust store, then the actions of the
// disruption policy. Without a rule, and with a rule that drains or reboots, the services restart that read the trust
// store only when they start.
func (t *Target) Actions(changed []string, rules disruption.Policy) (steps []plan.Step) {
	add := func(s plan.Step) {
		if !slices.Contains(steps, s) {
			steps = append(steps, s)
		}
	}
	if slices.ContainsFunc(changed, t.Machine.isAnchor) {
		add(plan.Step{Verb: host.UpdateTrust, Target: t.Machine.Store.Program})
	}
	for _, p := range changed {
		d := decide(p, rules)
		if d.Drain || d.Disruption >= disruption.Drain {
			for _, service := range t.readers(p) {
				add(plan.Step{Verb: host.Restart, Target: service})
			}
			continue
		}
		for _, a := range d.Actions {
			switch a.Type {
			case disruption.ActionDaemonReload:
				add(plan.Step{Verb: host.DaemonReload})
			case disruption.ActionReload:
				add(plan.Step{Verb: host.Reload, Target: a.Service})
			case disruption.ActionRestart:
				add(plan.Step{Verb: host.Restart, Target: a.Service})
			}
		}
	}
	return steps
}

// decide returns the decision of the disruption policy about one path.
func decide(p string, rules disruption.Policy) disruption.Decision {
	empty := machineconfig.Config{HasIgnition: true}
	one := empty
	one.Ignition.Storage.Files = []ign.File{{Node: ign.Node{Path: p}}}
	return disruption.Decide(empty, one, rules)
}

// readers returns the services that read a path only when they start.
func (t *Target) readers(p string) []string {
	if t.Machine.isAnchor(p) {
		return distribution.TrustReaders()
	}
	return nil
}

// validObject matches the name of an object. validRevision matches a revision.
var (
	validObject   = regexp.MustCompile(`^(Secret )?[a-z0-9-]{1,63}/([a-z0-9.-]{1,253}|\*)$`)
	validRevision = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Check returns an error if a node must not use an answer of the server. The error contains no contents.
func Check(t v1alpha1.NodeTrust) error {
	if !validRevision.MatchString(t.Revision) {
		return fmt.Errorf("reading what the server sends beside the config: its revision is not a SHA-256")
	}
	if len(t.Files) > trustfile.MaxFiles || len(t.Keep) > trustfile.MaxFiles {
		return fmt.Errorf("reading what the server sends beside the config: it has more than %d files",
			trustfile.MaxFiles)
	}
	seen, total := map[string]bool{}, 0
	for _, f := range t.Files {
		err := trustfile.Check(f)
		switch total += len(f.Contents); {
		case err != nil:
		case seen[f.Path]:
			err = fmt.Errorf("%s: it is in the answer twice", f.Path)
		case total > trustfile.MaxTotalBytes:
			err = fmt.Errorf("all files together are larger than %d MiB", trustfile.MaxTotalBytes>>20)
		case !validObject.MatchString(f.From):
			err = fmt.Errorf("%s: %q is not the name of an object", f.Path, f.From)
		}
		if err != nil {
			return fmt.Errorf("reading what the server sends beside the config: %w", err)
		}
		seen[f.Path] = true
	}
	for _, name := range t.Keep {
		if !validObject.MatchString(name) {
			return fmt.Errorf("reading what the server sends beside the config: %q is not the name of an object", name)
		}
	}
	return nil
}

// Merge returns an answer with the files before of the objects whose content the server does not know.
func Merge(before, answer v1alpha1.NodeTrust) v1alpha1.NodeTrust {
	has := map[string]bool{}
	for _, f := range answer.Files {
		has[f.Path] = true
	}
	files := slices.Clone(answer.Files)
	for _, f := range before.Files {
		if !has[f.Path] && slices.ContainsFunc(answer.Keep, func(name string) bool { return keeps(name, f.From) }) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b v1alpha1.TrustFile) int { return strings.Compare(a.Path, b.Path) })
	answer.Files = files
	return answer
}

// keeps reports whether a name of NodeTrust.Keep stands for an object.
func keeps(name, object string) bool {
	namespace, all := strings.CutSuffix(name, "/*")
	return name == object || all && path.Dir(object) == namespace
}

// Machine is what the places of files depend on.
type Machine struct {
	// Store is the trust store of the operating system; the zero value if it is not known.
	Store distribution.TrustStore
	// Dirs are the existing ones of DirsOf.
	Dirs map[string]bool
	// Links are the links among DirsOf, with their targets.
	Links map[string]string
}

// real returns a path without the links in it.
func (m Machine) real(p string) string { return disruption.ResolveLinks(m.Links, p) }

// defaultHost is the directory for the registries without one of their own.
const defaultHost = "/_default"

// DirsOf returns the directories that decide where files go: those of registries, and those above them.
func DirsOf(files []v1alpha1.TrustFile) []string {
	dirs := map[string]bool{
		trustfile.ContainerdRegistriesDir: true, trustfile.ContainerdRegistriesDir + defaultHost: true,
	}
	for _, f := range files {
		registry, is := trustfile.Registry(f.Path)
		if !is {
			continue
		}
		for _, of := range []string{
			trustfile.RegistriesDir, trustfile.ContainersRegistriesDir, trustfile.ContainerdRegistriesDir,
		} {
			for dir := range disruption.Parents(path.Join(of, registry, trustfile.RegistryFile)) {
				dirs[dir] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(dirs))
}

// place returns the files of a machine for one file of the server's answer.
func (m Machine) place(f v1alpha1.TrustFile) []v1alpha1.TrustFile {
	if f.Path == trustfile.UserCAPath {
		return m.placeUserCA(f)
	}
	all := []v1alpha1.TrustFile{f}
	registry, is := trustfile.Registry(f.Path)
	if !is {
		return all
	}
	// podman and CRI-O read only the first of two directories that exists, and containerd reads its own one only.
	containers, containerd := path.Join(trustfile.ContainersRegistriesDir, registry),
		path.Join(trustfile.ContainerdRegistriesDir, registry)
	add := func(dir string) {
		other := at(f, path.Join(dir, trustfile.RegistryFile))
		if !slices.ContainsFunc(all, func(f v1alpha1.TrustFile) bool { return m.real(f.Path) == m.real(other.Path) }) {
			all = append(all, other)
		}
	}
	if m.Dirs[containers] {
		add(containers)
	}
	// A new directory for the registry would hide the settings in _default.
	if m.Dirs[trustfile.ContainerdRegistriesDir] &&
		(m.Dirs[containerd] || !m.Dirs[trustfile.ContainerdRegistriesDir+defaultHost]) {
		add(containerd)
	}
	return all
}

// placeUserCA returns the files of the user's CA bundle: one file, or one for each certificate.
func (m Machine) placeUserCA(f v1alpha1.TrustFile) []v1alpha1.TrustFile {
	if m.Store.Dir == "" || path.Dir(f.Path) == m.Store.Dir {
		return []v1alpha1.TrustFile{f}
	}
	name := path.Join(m.Store.Dir, strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path)))
	certificates, err := trustfile.Certificates([]byte(f.Contents))
	if err != nil || !m.Store.Single {
		return []v1alpha1.TrustFile{at(f, name+m.Store.Suffix)}
	}
	var all []v1alpha1.TrustFile
	seen := map[string]bool{}
	for _, c := range certificates {
		sum := sha256.Sum256(c.Raw)
		one := at(f, name+"-"+hex.EncodeToString(sum[:8])+m.Store.Suffix)
		if one.Contents = trustfile.PEM(c); !seen[one.Path] {
			all = append(all, one)
		}
		seen[one.Path] = true
	}
	return all
}

// isAnchor reports whether the trust store reads a path.
func (m Machine) isAnchor(p string) bool { return m.Store.Dir != "" && path.Dir(p) == m.Store.Dir }

func at(f v1alpha1.TrustFile, p string) v1alpha1.TrustFile {
	f.Path = p
	return f
}
