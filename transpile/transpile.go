package transpile

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/cluster"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// The directories of a repository that Bunsen reads.
const (
	poolsDir = "pools"
	// nodesDir is the directory of a pool with a directory for each node that has documents of its own. At the top of a
	// repository, Bunsen refuses it.
	nodesDir = "nodes"
)

// layout describes a repository, for messages.
const layout = "a repository has a directory for each pool (pools/worker/, pools/master/) with Butane documents " +
	"(*.bu) or a kustomization.yaml, and optionally cluster/ for MachineConfigPools"

// Fragments turns a tree into fragments, cluster objects and a report. The same tree gives the same bytes. For many
// calls, use a Transpiler, which caches results.
func Fragments(tree source.Tree) Result {
	return new(Transpiler).Fragments(tree)
}

// Transpiler runs Fragments with caches, by digest: of whole trees, of the fragments of single documents, and of what
// single files declare. A program that drops a Transpiler loses only the caches. The zero value of Transpiler is ready
// for use. Several goroutines may use one Transpiler. Results share memory: do not change them.
type Transpiler struct {
	// LargeFiles is true if machines can read files that are too large for a MachineConfig from the content store.
	// Otherwise such a file is an error. Set it before the first use.
	LargeFiles bool
	// ImagesByTag is true if images need no digest, as in a commit from before Bunsen required one. Set it before the
	// first use.
	ImagesByTag bool
	// Store has results of earlier processes; nil for none. Set it before the first use.
	Store Store
	// Keep reports whether a fragment may be in the Store, which outlives the repository; nil: each may.
	Keep func(Fragment) bool

	mu        sync.Mutex
	turn      int
	trees     map[string]treeEntry
	documents map[string]documentEntry
	declared  map[declaredKey]declaredEntry
	// declaredSize is the size of all files in declared, in bytes.
	declaredSize int
}

// Store stores results beyond the life of a process. It may forget any, and is used by several goroutines.
type Store interface {
	// Get returns the value that was put under a key, and whether there is one. Nobody changes it.
	Get(key string) ([]byte, bool)
	// Put stores a value under a key. The caller does not change it afterwards.
	Put(key string, value []byte)
}

// Fragments turns a tree into fragments, cluster objects and a report, as the function of that name does.
func (t *Transpiler) Fragments(tree source.Tree) Result {
	out, err := t.FragmentsUntil(tree, nil)
	if err != nil {
		var found origin.Findings
		found.Errorf(origin.Pos{}, "internal", "reading the repository: %v", err)
		return Result{Report: report(found.List)}
	}
	return out
}

// FragmentsUntil is Fragments, but ends early if stop returns an error. FragmentsUntil calls stop before each pool and
// each document. If stop returns an error, FragmentsUntil returns this error with an empty result, and does not cache
// the tree. If stop is nil, FragmentsUntil never ends early. FragmentsUntil also returns an error if the directory of
// the tree was removed.
func (t *Transpiler) FragmentsUntil(tree source.Tree, stop func() error) (Result, error) {
	key := treeKey(tree)
	if hit, ok := t.tree(key); ok {
		return hit, nil
	}
	asked := &stopper{ask: stop}
	out := t.isolated(openRepository(tree), asked)
	if asked.err != nil {
		return Result{}, asked.err
	}
	if isRemoved(tree) {
		return Result{}, fmt.Errorf("the directory of the tree, %s, was removed while it was read; it is read again",
			tree.Root)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.trees == nil {
		t.trees = map[string]treeEntry{}
	}
	if key != "" {
		t.trees[key] = treeEntry{out, t.turn}
	}
	t.forget()
	return out, nil
}

// isRemoved reports whether the directory that a tree is read from no longer exists. The result may then lack files,
// and whoever applies it would delete their objects.
func isRemoved(tree source.Tree) bool {
	if tree.Root == "" || tree.Extract != nil { // The files are in memory.
		return false
	}
	_, err := fs.Stat(tree.FS, ".")
	return errors.Is(err, fs.ErrNotExist)
}

// stopper calls a function that decides whether to stop, until it returns an error.
type stopper struct {
	ask func() error
	err error
}

// isStopped reports whether the run must stop. After that, no one uses the result of the run.
func (s *stopper) isStopped() bool {
	if s.err == nil && s.ask != nil {
		s.err = s.ask()
	}
	return s.err != nil
}

// openRepository prepares a tree for reading.
func openRepository(tree source.Tree) repository {
	refused := map[string]string{}
	for _, r := range tree.Refused {
		refused[r.Path] = r.Why
	}
	return repository{tree, cleanFS{tree.FS, refused, &sync.Map{}}, refused, map[string]includedFiles{}}
}

// isolated calls fragments, and turns a panic into an error in the tree's report.
func (t *Transpiler) isolated(repo repository, stop *stopper) (out Result) {
	var found origin.Findings
	defer func() {
		if p := recover(); p != nil {
			found.Errorf(origin.Pos{}, "internal", "reading the repository: %v", fault.NewPanic(p))
			out = Result{Report: report(found.List)}
		}
	}()
	return t.fragments(repo, stop, &found)
}

// fragments turns the files of a repository into a result. It uses and fills the cache of documents.
func (t *Transpiler) fragments(repo repository, stop *stopper, found *origin.Findings) Result {
	out := Result{Reads: map[string][]string{}}
	reportRefused(repo, found)
	out.Pools = findPools(repo, found)
	reads := map[string]bool{} // reads has the files that the pools were built from.
	for _, pool := range out.Pools {
		if stop.isStopped() {
			return Result{}
		}
		built := t.buildPool(repo, pool, stop)
		out.Fragments = append(out.Fragments, built.fragments...)
		found.Add(built.findings...)
		own := map[string]bool{}
		built.addReads(own)
		maps.Copy(reads, own)
		out.Reads[pool] = slices.Sorted(maps.Keys(own))
	}
	for _, step := range []func(){
		func() { checkNodesDirectory(repo, reads, found) },
		func() { warnUnusedFiles(repo, reads, found) },
		func() { out.Cluster = cluster.Read(repo.fs, out.Pools, stop.isStopped, found) },
		func() { checkNames(out.Fragments, found) },
		func() { checkNodesOnce(out.Fragments, found) },
		func() { checkPools(repo, out, found) },
		func() { t.checkLargeFiles(out.Fragments, found) },
		func() { t.checkImages(out.Fragments, found) },
	} {
		if stop.isStopped() {
			return Result{}
		}
		step()
	}
	if out.Report = report(found.List); out.Report.Fatal() {
		out.Fragments, out.Cluster = nil, nil
		return out
	}
	out.Fragments = withFiles(inOrder(out.Fragments), repo.tree.FS)
	return out
}

// withFiles returns fragments whose large files are read from a tree. A cached fragment may be from another tree.
func withFiles(fragments []Fragment, files fs.FS) []Fragment {
	for i := range fragments {
		fragments[i].Contents = slices.Clone(fragments[i].Contents)
		for k := range fragments[i].Contents {
			fragments[i].Contents[k].FS = files
		}
		withFiles(fragments[i].Documents, files)
	}
	return fragments
}

// inOrder returns the fragments sorted by pool, then name.
func inOrder(fragments []Fragment) []Fragment {
	slices.SortStableFunc(fragments, func(a, b Fragment) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Name, b.Name))
	})
	return fragments
}

// findPools returns the names of the pools' directories.
func findPools(repo repository, found *origin.Findings) []string {
	entries, err := fs.ReadDir(repo.fs, poolsDir)
	if err != nil {
		found.Errorf(origin.Pos{}, "no-pools", "there is no directory %s/ here: %s", poolsDir, layout)
		return nil
	}
	var pools []string
	for _, e := range entries {
		name := e.Name()
		at := origin.Pos{File: poolsDir + "/" + name}
		switch {
		case strings.HasPrefix(name, "."):
		case !e.IsDir():
			found.Warnf(at, cluster.UnusedFile, "not read: only directories below %s/ are pools; move it into one",
				poolsDir)
		case len(validation.IsDNS1123Label(name)) > 0:
			found.Errorf(at, "pool-name", "%q is no name for a pool: use lower-case letters, digits and -", name)
		default:
			pools = append(pools, name)
		}
	}
	if len(pools) == 0 && !found.HasErrors() {
		found.Errorf(origin.Pos{File: poolsDir}, "no-pools", "%s/ has no pool in it: %s", poolsDir, layout)
	}
	return pools
}

// buildPool builds the directory of a pool, with what it says about single nodes. If stop ends the run, the result is
// empty.
func (t *Transpiler) buildPool(repo repository, pool string, stop *stopper) (out builtPool) {
	defer func() { // so that the report has the errors of the other pools too
		if p := recover(); p != nil {
			out = builtPool{findings: []origin.Finding{origin.Errorf(origin.Pos{File: poolDir(pool)}, "internal",
				"reading the pool: %v", fault.NewPanic(p))}}
		}
	}()
	out = t.buildDirectory(repo, pool, poolDir(pool), stop)
	if stop.isStopped() {
		return builtPool{}
	}
	return t.buildNodes(repo, pool, out, stop)
}

func poolDir(pool string) string { return path.Join(poolsDir, pool) }

// builtPool is the result of one pool's directory.
type builtPool struct {
	reads     []origin.File // the files that the build of the overlay read
	included  []included
	fragments []Fragment
	findings  []origin.Finding
}

// addReads adds the files that the pool was built from to the files of the result.
func (p builtPool) addReads(reads map[string]bool) {
	for _, f := range p.reads {
		reads[f.Path] = true
	}
	for _, i := range p.included {
		reads[i.path] = true
		for _, f := range i.files {
			reads[f.Path] = true
		}
	}
}

// buildDirectory builds the overlay in a directory of a pool and turns its documents into fragments. If stop ends the
// run, the result is empty.
func (t *Transpiler) buildDirectory(repo repository, pool, dir string, stop *stopper) builtPool {
	built, found := overlay.Build(repo.fs, dir, declarations{t})
	out := builtPool{reads: built.Reads, findings: found}
	if !origin.Fatal(found) && len(built.Documents) == 0 && dir == poolDir(pool) {
		out.findings = append(out.findings, origin.Errorf(origin.Pos{File: dir}, "empty-pool",
			"the pool has no documents: add a Butane file (*.bu), or remove the directory"))
	}
	early, _ := inPool(pool, built.AsWritten)
	// If the build failed, this loop still finds errors in documents without their patches, so that the report has all
	// errors at once.
	for _, d := range early {
		if stop.isStopped() {
			return builtPool{}
		}
		out.findings = append(out.findings, t.translateCached(repo, pool, d).findings...)
	}
	docs, tooMany := inPool(pool, built.Documents)
	out.findings = append(out.findings, tooMany...)
	for _, d := range docs {
		if stop.isStopped() {
			return builtPool{}
		}
		entry := t.translateCached(repo, pool, d)
		out.findings = append(out.findings, entry.findings...)
		if origin.Fatal(entry.findings) {
			continue
		}
		out.included = append(out.included, entry.included...)
		out.fragments = append(out.fragments, entry.fragment)
	}
	return out
}

// named is a document and the name that its pool gives it. The name is empty if the document has its own.
type named struct {
	doc  documents.Document
	name string
	// joined are further documents that become the same fragment.
	joined []documents.Document
}

// inPool assigns names to the documents of a pool. inPool joins all documents about registries. If several documents
// have the same name, all but the first get a number, in the order of their files. inPool does not change the order of
// the documents.
func inPool(pool string, docs []documents.Document) ([]named, []origin.Finding) {
	docs, joined := withoutRegistries(docs)
	out := make([]named, len(docs), len(docs)+1)
	shared := map[string][]int{}
	for i, d := range docs {
		out[i].doc = d
		if name := generatedName(pool, d.Kind); name != "" {
			shared[name] = append(shared[name], i)
		} else if d.Kind != documents.MachineConfig {
			out[i].name = fragmentName(pool, d.Name)
		}
	}
	var found []origin.Finding
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		of := shared[name]
		slices.SortFunc(of, func(i, j int) int {
			return cmp.Or(cmp.Compare(docs[i].File, docs[j].File), cmp.Compare(docs[i].Name, docs[j].Name))
		})
		for n, i := range of {
			out[i].name = name
			if n > 0 {
				out[i].name += "-" + strconv.Itoa(n)
			}
			if n >= maxNumbered {
				found = append(found, origin.Errorf(origin.Pos{File: docs[i].File}, "too-many",
					"a pool has at most %d documents of this kind, and this is one more; join some of them",
					maxNumbered))
			}
		}
	}
	if len(joined) > 0 {
		out = append(out, named{doc: joined[0], name: kinds.FragmentName(pool), joined: joined[1:]})
	}
	return out, found
}

// withoutRegistries separates the documents about registries. It returns them in the order of their files.
func withoutRegistries(docs []documents.Document) (others, about []documents.Document) {
	for _, d := range docs {
		if d.Kind.IsAboutRegistries() {
			about = append(about, d)
		} else {
			others = append(others, d)
		}
	}
	slices.SortStableFunc(about, func(a, b documents.Document) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Name, b.Name))
	})
	return others, about
}

// generatedName returns the name of the MachineConfig for a kind of document, without a number. generatedName returns
// "" for a kind whose documents have their own names.
func generatedName(pool string, kind documents.Kind) string {
	switch kind {
	case documents.KubeletConfig, documents.KubeletConfiguration:
		return "99-" + pool + "-generated-kubelet"
	case documents.ContainerRuntimeConfig:
		return "99-" + pool + "-generated-containerruntime"
	case documents.SSHKeys:
		return "99-" + pool + "-ssh"
	default:
		return ""
	}
}

// fragmentName returns the name of the MachineConfig of a document: `10-chrony` in pool worker is
// `10-worker-chrony`.
func fragmentName(pool, document string) string {
	if m := numbered.FindStringSubmatch(document); m != nil {
		return m[1] + "-" + pool + "-" + m[2]
	}
	return defaultNumber + "-" + pool + "-" + document
}

const (
	// defaultNumber is the number in the MachineConfig's name if the document's name begins with no number. The
	// renderer merges documents in the order of their names, and later documents override earlier documents.
	defaultNumber = "50"
	// maxNumbered is how many documents of a pool may have names that differ only in a last digit. With two digits, the
	// order would change: the name that ends with -10 sorts before the one with -2.
	maxNumbered = 10
)

var numbered = regexp.MustCompile(`^([0-9]+)-(.+)$`)

// translateCached turns one document into a fragment, or returns what that gave earlier. The fragment is the zero value
// if a finding is fatal.
func (t *Transpiler) translateCached(repo repository, pool string, n named) documentEntry {
	entry, ok := t.cached(repo, pool, n)
	if ok {
		return entry
	}
	if entry = translate(repo, pool, n); !origin.Fatal(entry.findings) {
		t.cache(pool, n, entry)
	}
	return entry
}

// translate turns one document into a fragment. The fragment is the zero value if a finding is fatal.
func translate(repo repository, pool string, n named) documentEntry {
	doc := n.doc
	d := convert(repo, pool, n)
	d.readSecretPaths(repo.fs, append([]documents.Document{doc}, n.joined...))
	if d.HasErrors() {
		return documentEntry{findings: withoutEchoes(d.List)}
	}
	start := origin.Pos{File: doc.File}
	if d.role != pool {
		at, ok := doc.Origin.Find("$.metadata.labels")
		if !ok || doc.Kind == documents.MachineConfig {
			at = start
		}
		d.Errorf(at, "role", "the document's role is %q and its directory's pool is %q; set the label %s: %s, or "+
			"move the document", d.role, pool, v1alpha1.RoleLabel, pool)
	}
	if bad := badName(d.name); bad != "" {
		d.Errorf(start, "name", "%q is no name for a MachineConfig: %s; rename the file%s", d.name, bad,
			betterName(doc.File))
	}
	d.check()
	d.Add(checkReferences(d.config, d.origin)...)
	d.Add(checkStoreAddresses(d.config, d.contents, d.origin)...)
	d.Add(Lint(repo.fs, d.config, d.system, d.origin)...)
	if doc.Kind != documents.SSHKeys { // The translation of an SSHKeys document checks the keys itself.
		d.Add(checkAccounts(d.config, d.origin)...)
	}
	f, err := fragment(pool, d)
	if err != nil {
		d.Errorf(start, "machine-config", "%v", err)
	}
	f.File = doc.File
	return documentEntry{
		included: d.included, fragment: f, findings: withoutEchoes(d.List), namesItself: d.namesItself,
	}
}

// translation is a document while it becomes a fragment.
type translation struct {
	name, role  string
	namesItself bool // for Butane documents
	config      machineconfig.Config
	system      string // the operating system of a Butane document, as its variant
	secretPaths string // the value of the annotation for secret paths
	origin      origin.Map
	included    []included
	contents    []machineconfig.LargeFile // the files of the config that are in the content store
	origin.Findings
}

// convert turns a document of any kind into a config.
func convert(repo repository, pool string, n named) translation {
	doc := n.doc
	d := translation{name: n.name, role: pool}
	in := kinds.ObjectInput{Pool: pool, Source: doc.Source, Origin: doc.Origin}
	var out kinds.ObjectOutput
	var found []origin.Finding
	switch doc.Kind {
	case documents.MachineConfig:
		return rawConfig(doc)
	case documents.Butane:
		var b butane.Output
		b, found = butane.Translate(butane.Input{
			Source: doc.Source, Origin: doc.Origin, Root: repo.tree.Root, FS: repo.fs, Refused: repo.refused,
			Extract: repo.tree.Extract,
		})
		out, d.included, d.contents = kinds.ObjectOutput{Config: b.Config, Origin: b.Origin}, includedBy(b.Locals),
			b.Contents
		d.system = b.Variant
		if b.Name != "" {
			d.name, d.role, d.namesItself = b.Name, b.Role, true
		}
	case documents.Ignition:
		var i kinds.IgnitionOutput
		i, found = kinds.TranslateIgnition(kinds.IgnitionInput{Source: doc.Source, Origin: doc.Origin})
		out = kinds.ObjectOutput(i)
	case documents.KubeletConfiguration:
		out, found = kinds.KubeletConfiguration(in)
	case documents.KubeletConfig:
		out, found = kinds.TranslateKubelet(in)
	case documents.ContainerRuntimeConfig:
		out, found = kinds.TranslateContainerRuntime(in)
	case documents.ImageDigestMirrorSet, documents.ImageTagMirrorSet, documents.ImageContentSourcePolicy,
		documents.ClusterImagePolicy, documents.ImagePolicy:
		out, found = kinds.TranslateRegistries(aboutRegistries(pool, n))
	case documents.SSHKeys:
		out, found = kinds.TranslateSSHKeys(in)
	default:
		found = []origin.Finding{origin.Errorf(origin.Pos{File: doc.File}, "kind", "unknown kind %q", doc.Kind)}
	}
	d.config, d.origin = out.Config, out.Origin
	d.Add(found...)
	if doc.Kind != documents.Butane && !d.HasErrors() {
		for _, bad := range machineconfig.Validate(d.config) { // Butane has already validated Butane documents.
			at, _ := d.origin.Find(bad.Path)
			d.Errorf(at, "ignition", "%s", message.OfProblem(bad))
		}
	}
	return d
}

// aboutRegistries returns the documents that become one fragment about registries.
func aboutRegistries(pool string, n named) []kinds.RegistriesDocument {
	out := make([]kinds.RegistriesDocument, 0, 1+len(n.joined))
	for _, d := range append([]documents.Document{n.doc}, n.joined...) {
		out = append(out, kinds.RegistriesDocument{Kind: string(d.Kind), ObjectInput: kinds.ObjectInput{
			Pool: pool, Source: d.Source,
			Origin: d.Origin,
		}})
	}
	return out
}

// includedBy returns the files and directories that a Butane document includes.
func includedBy(locals []butane.Local) []included {
	var out []included
	for _, l := range locals {
		out = append(out, included{l.Path, l.Files})
	}
	return out
}

// check refuses configs that are unsafe, and configs that every node would refuse. Errors in a config that the document
// merges have a rule of their own.
func (d *translation) check() {
	found := append(machineconfig.Check(d.config), machineconfig.CheckSystem(d.config.KernelType,
		d.config.Extensions)...)
	for _, p := range found {
		at, _ := d.origin.Find(p.Path)
		rule := "unsafe"
		if p.Nested {
			rule = "merged-config"
		}
		d.Errorf(at, rule, "%s", message.OfProblem(p))
	}
	if d.HasErrors() {
		return
	}
	for _, r := range disruption.Invalid(d.config) {
		item := placedItem(d.config, r.Kind, r.Name)
		if r.Part != "" {
			item += "." + r.Part
		}
		at, _ := d.origin.Find(item)
		d.Errorf(at, "every-node-refuses", "%s: %s", r.Field, r.Why)
	}
}

// withoutEchoes removes Butane's warnings at positions that also have an error, because the error is more exact.
func withoutEchoes(findings []origin.Finding) []origin.Finding {
	bad := map[origin.Pos]bool{}
	for _, f := range findings {
		bad[f.At] = bad[f.At] || !f.Warning
	}
	return slices.DeleteFunc(findings, func(f origin.Finding) bool {
		return f.Warning && f.Rule == "butane" && bad[f.At]
	})
}

// fragment creates the MachineConfig that the controller applies.
func fragment(pool string, d translation) (Fragment, error) {
	spec, contents, err := fitLargeFiles(d.config, d.contents, len(d.secretPaths))
	if err != nil {
		return Fragment{}, err
	}
	mc := machineConfig(d.name, d.role, d.secretPaths, spec)
	digest, err := kinds.ObjectDigest(mc)
	if err != nil {
		return Fragment{}, err
	}
	return Fragment{Pool: pool, Name: d.name, MachineConfig: mc, Digest: digest, Contents: contents, Origin: d.origin},
		nil
}

// machineConfig returns a MachineConfig with the metadata of a fragment.
func machineConfig(name, role, secretPaths string, spec mcfgv1.MachineConfigSpec) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleLabel: role}},
		Spec:       spec,
	}
	if secretPaths != "" {
		mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: secretPaths}
	}
	return mc
}

// badName returns why a MachineConfig's name is invalid, or "".
func badName(name string) string {
	if strings.HasPrefix(name, "rendered-") {
		return "names that begin with rendered- are the renderer's"
	}
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return ""
	}
	return "write it in lowercase letters, digits, - and ., beginning and ending with a letter or digit, at most " +
		"253 in all"
}

// betterName proposes a name for a file whose name cannot be that of a MachineConfig; "" if there is none.
func betterName(file string) string {
	ext := path.Ext(file)
	stem := strings.TrimSuffix(path.Base(file), ext)
	if better := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(stem), "-"), "-."); better != "" &&
		better != stem {
		return ", for example to " + better + ext
	}
	return ""
}

// notInNames matches what a name of a MachineConfig cannot have.
var notInNames = regexp.MustCompile(`[^a-z0-9.]+`)
