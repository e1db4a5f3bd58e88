package transpile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/policy"
	"github.com/bunsen-os/bunsen/transpile/butane"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
)

// named is a document and the name that its pool gives it; empty where the document has its own.
type named struct {
	doc    overlay.Document
	parsed *yaml.Node // see overlay.Result
	name   string
}

// pool adds one pool's fragments.
func (r *run) pool(pool string) {
	dir := poolDir(pool)
	hit, ok := r.cache.pool(r, dir)
	if !ok {
		hit, ok = r.cache.latestPool(r, dir)
	}
	if !ok {
		hit = r.build(pool, dir)
	}
	r.out.Fragments = append(r.out.Fragments, hit.fragments...)
	r.findings = append(r.findings, hit.findings...)
	r.kept = append(r.kept, hit.key)
	hit.noteReads(r.reads)
}

func poolDir(pool string) string { return path.Join(poolsDir, pool) }

// build makes a pool's fragments.
func (r *run) build(pool, dir string) poolEntry {
	built, found := r.cache.builder.BuildKnowing(r.fs, dir, r.cache.learn(dir))
	if isStopped(r) {
		return poolEntry{}
	}
	if !r.cache.knows(r, pool, built.Documents) {
		built, found = r.cache.builder.Build(r.fs, dir)
	}
	entry := poolEntry{reads: built.Reads, findings: found}
	if !origin.Fatal(found) && len(built.Documents) == 0 {
		entry.findings = append(entry.findings, origin.Finding{
			Rule: "empty-pool", At: origin.Pos{File: dir},
			Message: "the pool has no documents: add a Butane file (*.bu), or remove the directory",
		})
	}
	early, _ := inPool(pool, built.AsWritten)
	for _, d := range early { // say all that is wrong at once, as far as it shows without the patches
		if isStopped(r) {
			return poolEntry{}
		}
		d.parsed = built.Parsed[d.doc.Key]
		entry.findings = append(entry.findings, r.document(pool, d).findings...)
	}
	docs, tooMany := inPool(pool, built.Documents)
	entry.findings = append(entry.findings, tooMany...)
	for _, d := range docs {
		if isStopped(r) {
			return poolEntry{} // which no cache keeps
		}
		key := documentKey(pool, d)
		hit, ok := r.cache.document(r, key)
		if !ok {
			d.parsed = built.Parsed[d.doc.Key]
			hit = r.document(pool, d)
		}
		entry.findings = append(entry.findings, hit.findings...)
		if origin.Fatal(hit.findings) {
			continue
		}
		exact := hit.exactKey(key)
		if ok && exact != key {
			_, ok = r.cache.shelved(exact)
		}
		if !ok {
			r.cache.keepDocument(key, hit)
		}
		entry.locals = append(entry.locals, hit.locals...)
		entry.documents = append(entry.documents, documentRef{exact, d.doc.Key})
		entry.fragments = append(entry.fragments, hit.fragment)
	}
	if !origin.Fatal(entry.findings) {
		entry = r.cache.keepPool(dir, built, entry)
	}
	return entry
}

// knows tells whether there is an entry for each document of which the overlay gave no more than the key. There is
// none where the same document had another name, or took in other files.
func (t *Transpiler) knows(r *run, pool string, documents []overlay.Document) bool {
	docs, _ := inPool(pool, documents)
	for _, d := range docs {
		if d.doc.Source != nil {
			continue
		}
		if _, ok := t.document(r, documentKey(pool, d)); !ok {
			return false
		}
	}
	return true
}

// draft is a document on its way to a fragment.
type draft struct {
	name, role string
	config     machineconfig.Config
	marks      string // of secret paths, see readMarks
	origin     origin.Map
	locals     []local
	findings   []origin.Finding
}

func (d *draft) fatal(at origin.Pos, rule, format string, args ...any) {
	d.findings = append(d.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: at})
}

// document turns one document into a fragment, which is the zero value where a finding is fatal.
func (r *run) document(pool string, n named) documentEntry {
	doc := n.doc
	d := r.convert(pool, n)
	d.readMarks(r.fs, doc)
	if origin.Fatal(d.findings) {
		return documentEntry{findings: withoutEchoes(d.findings)}
	}
	start := origin.Pos{File: doc.File}
	if d.role != pool {
		at, ok := doc.Origin.Find("$.metadata.labels")
		if !ok || doc.Kind == overlay.MachineConfig {
			at = start
		}
		d.fatal(at, "role", "the document's role is %q and its directory's pool is %q; set the label %s: %s, or move the document", d.role, pool, v1alpha1.RoleLabel, pool)
	}
	if bad := badName(d.name); bad != "" {
		d.fatal(start, "name", "%q is no name for a MachineConfig: %s; rename the file", d.name, bad)
	}
	d.check()
	d.lint(r.fs)
	if doc.Kind != overlay.SSHKeys { // which checks its keys itself
		d.accounts()
	}
	f, err := fragment(pool, d)
	if err != nil {
		d.fatal(start, "machine-config", "%v", err)
	}
	f.File = doc.File
	return documentEntry{locals: d.locals, fragment: f, findings: withoutEchoes(d.findings)}
}

// withoutEchoes removes Butane's warnings of places that have an error: it says more.
func withoutEchoes(findings []origin.Finding) []origin.Finding {
	bad := map[origin.Pos]bool{}
	for _, f := range findings {
		bad[f.At] = bad[f.At] || !f.Warning
	}
	return slices.DeleteFunc(findings, func(f origin.Finding) bool { return f.Warning && f.Rule == "butane" && bad[f.At] })
}

// check refuses what no machine may get, and what every node would refuse. What is wrong with a config that the document merges
// has a rule of its own.
func (d *draft) check() {
	for _, err := range machineconfig.Check(d.config) {
		at, _ := d.origin.Find(outputPath(err.Error()))
		rule := "unsafe"
		if strings.HasPrefix(err.Error(), "ignition.config") {
			rule = "merged-config"
		}
		d.fatal(at, rule, "%s", message.TranslateLine(err.Error()))
	}
	if origin.Fatal(d.findings) {
		return
	}
	for _, r := range policy.Invalid(d.config) {
		at, _ := d.origin.Find(itemPath(d.config, r.Kind, r.Name))
		d.fatal(at, "every-node-refuses", "%s: %s", r.Field, r.Why)
	}
}

// locals are what a document takes in, as an entry has it.
func locals(of []butane.Local) []local {
	var out []local
	for _, l := range of {
		out = append(out, local{l.Path, l.Files})
	}
	return out
}

// fragment makes the object to apply.
func fragment(pool string, d draft) (Fragment, error) {
	spec, err := d.config.Spec()
	if err != nil {
		return Fragment{}, err
	}
	mc := machineConfig(d.name, d.role, d.marks, spec)
	digest, err := digestOf(mc)
	if err != nil {
		return Fragment{}, err
	}
	return Fragment{Pool: pool, Name: d.name, MachineConfig: mc, Digest: digest, Origin: d.origin}, nil
}

// machineConfig is a MachineConfig with all the metadata that a fragment has.
func machineConfig(name, role, marks string, spec mcfgv1.MachineConfigSpec) *mcfgv1.MachineConfig {
	mc := &mcfgv1.MachineConfig{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcfgv1.GroupVersion.String(), Kind: "MachineConfig"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.RoleLabel: role}},
		Spec:       spec,
	}
	if marks != "" {
		mc.Annotations = map[string]string{v1alpha1.SecretPathsAnnotation: marks}
	}
	return mc
}

func roleOf(f Fragment) string { return f.MachineConfig.Labels[v1alpha1.RoleLabel] }

// digestOf is the sha256 of an object's JSON; Go writes the keys of maps in order.
func digestOf(object any) (string, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return "", fmt.Errorf("writing the object as JSON: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
