package transpile

import (
	"crypto/sha256"
	"encoding/hex"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Shelf is a memory that outlives the process. It is asked by content, so that it is safe to lose, and what it returns is
// checked, so that it is safe to damage. Entries hold what documents say. Different builds of the program must not share
// one: the same document may mean something else to them.
type Shelf interface {
	// Get returns what was put under a key.
	Get(key string) ([]byte, bool)
	// Put keeps a value instead of an earlier one, or does not.
	Put(key string, value []byte)
}

// shelfFormat names the form of entries; it is part of every key.
const shelfFormat = "transpile 3"

// shelfKey is a digest of words.
func shelfKey(words ...string) string {
	w := writer{}
	w.text(shelfFormat)
	for _, word := range words {
		w.text(word)
	}
	sum := sha256.Sum256(w.raw)
	return hex.EncodeToString(sum[:])
}

// shelve writes what a document gave.
func shelve(key string, e documentEntry) []byte {
	w := &writer{}
	f := e.fragment
	w.text(f.Pool)
	w.text(f.Name)
	w.text(roleOf(f))
	w.text(f.MachineConfig.Annotations[v1alpha1.SecretPathsAnnotation])
	w.text(f.Digest)
	w.text(f.File)
	w.spec(f.MachineConfig.Spec)
	w.origin(f.Origin)
	writeList(w, e.locals, w.local)
	writeList(w, e.findings, w.finding)
	return w.seal(key)
}

// unshelve reads what a document gave.
func unshelve(key string, value []byte) (documentEntry, bool) {
	r := unseal(key, value)
	f := Fragment{Pool: r.text(), Name: r.text()}
	role, marks := r.text(), r.text()
	f.Digest, f.File = r.text(), r.text()
	f.MachineConfig = machineConfig(f.Name, role, marks, r.spec())
	f.Origin = r.origin()
	e := documentEntry{fragment: f, locals: readList(r, r.local), findings: readList(r, r.finding)}
	return e, r.whole()
}

func (w *writer) spec(s mcfgv1.MachineConfigSpec) {
	w.text(s.OSImageURL)
	w.text(s.BaseOSExtensionsContainerImage)
	w.text(s.KernelType)
	w.flag(s.FIPS)
	writeList(w, s.KernelArguments, w.text)
	writeList(w, s.Extensions, w.text)
	w.text(string(s.Config.Raw))
}

func (r *reader) spec() mcfgv1.MachineConfigSpec {
	return mcfgv1.MachineConfigSpec{
		OSImageURL: r.text(), BaseOSExtensionsContainerImage: r.text(), KernelType: r.text(), FIPS: r.flag(),
		KernelArguments: readList(r, r.text), Extensions: readList(r, r.text), Config: runtime.RawExtension{Raw: []byte(r.text())},
	}
}
