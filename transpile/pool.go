package transpile

import (
	"errors"
	"path"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/transpile/butane"

	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/message"
	"github.com/bunsen-os/bunsen/transpile/origin"
	"github.com/bunsen-os/bunsen/transpile/overlay"
	"github.com/bunsen-os/bunsen/transpile/overlay/documents"
)

// named is a document and the name that its pool gives it. The name is empty if the document has its own.
type named struct {
	doc  documents.Document
	name string
	// joined are further documents that become the same fragment.
	joined []documents.Document
}

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

func poolDir(pool string) string { return path.Join(poolsDir, pool) }

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

// buildDirectory builds the overlay in a directory of a pool and turns its documents into fragments. If stop ends the
// run, the result is empty.
func (t *Transpiler) buildDirectory(repo repository, pool, dir string, stop *stopper) builtPool {
	built, found := overlay.Build(repo.fs, dir)
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
		out.findings = append(out.findings, translate(repo, pool, d).findings...)
	}
	docs, tooMany := inPool(pool, built.Documents)
	out.findings = append(out.findings, tooMany...)
	for _, d := range docs {
		if stop.isStopped() {
			return builtPool{}
		}
		key := d.key(pool)
		entry, ok := t.document(repo, key)
		if !ok {
			entry = translate(repo, pool, d)
		}
		out.findings = append(out.findings, entry.findings...)
		if origin.Fatal(entry.findings) {
			continue
		}
		if !ok {
			t.keepDocument(key, entry)
		}
		out.included = append(out.included, entry.included...)
		out.fragments = append(out.fragments, entry.fragment)
	}
	return out
}

// translation is a document while it becomes a fragment.
type translation struct {
	name, role  string
	config      machineconfig.Config
	system      string // the operating system of a Butane document, as its variant
	secretPaths string // the value of the annotation for secret paths
	origin      origin.Map
	included    []included
	contents    []machineconfig.LargeFile // the files of the config that are in the content store
	origin.Findings
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
	d.Add(CheckReferences(d.config, d.origin)...)
	d.Add(CheckLargeFiles(d.config, d.contents, d.origin)...)
	d.Add(Lint(repo.fs, d.config, d.system, d.origin)...)
	if doc.Kind != documents.SSHKeys { // The translation of an SSHKeys document checks the keys itself.
		d.Add(Accounts(d.config, d.origin)...)
	}
	f, err := fragment(pool, d)
	if err != nil {
		d.Errorf(start, "machine-config", "%v", err)
	}
	f.File = doc.File
	return documentEntry{included: d.included, fragment: f, findings: withoutEchoes(d.List)}
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

// check refuses configs that are unsafe, and configs that every node would refuse. Errors in a config that the document
// merges have a rule of their own.
func (d *translation) check() {
	found := append(machineconfig.Check(d.config), machineconfig.CheckSystem(d.config.KernelType,
		d.config.Extensions)...)
	for _, err := range found {
		at, _ := d.origin.Find(PlacedOutput(err.Error()))
		rule := "unsafe"
		var nested *machineconfig.NestedError
		if errors.As(err, &nested) {
			rule = "merged-config"
		}
		d.Errorf(at, rule, "%s", message.TranslateLine(err.Error()))
	}
	if d.HasErrors() {
		return
	}
	for _, r := range disruption.Invalid(d.config) {
		item := PlacedItem(d.config, r.Kind, r.Name)
		if r.Part != "" {
			item += "." + r.Part
		}
		at, _ := d.origin.Find(item)
		d.Errorf(at, "every-node-refuses", "%s: %s", r.Field, r.Why)
	}
}

// includedBy returns the files and directories that a Butane document includes.
func includedBy(locals []butane.Local) []included {
	var out []included
	for _, l := range locals {
		out = append(out, included{l.Path, l.Files})
	}
	return out
}

// fragment creates the MachineConfig that the controller applies.
func fragment(pool string, d translation) (Fragment, error) {
	spec, contents, err := FitLargeFiles(d.config, d.contents, len(d.secretPaths))
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
