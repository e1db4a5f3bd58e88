package cluster

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

const (
	// Dir is the directory of a repository that contains cluster objects.
	Dir = "cluster"
	// PoolKind is the API kind of pools.
	PoolKind    = "MachineConfigPool"
	policyKind  = "MachineConfiguration"
	driftKind   = "DriftPolicy"
	rolloutKind = "RolloutPolicy"
	imagesKind  = "PinnedImageSet"
	// policyName is the only name that a MachineConfiguration may have.
	policyName = "cluster"
)

// UnusedFile is the rule of findings about files that Bunsen does not read.
const UnusedFile = "unused-file"

// Object is one object of the repository's `cluster/` directory. The controller applies this object without changes.
type Object struct {
	// Object is the object without status, without spec.configuration and without spec.paused.
	Object *unstructured.Unstructured
	// Digest is `sha256:<hex>` of the object's canonical JSON.
	Digest string
	// File is the file that contains the object; Line is where the object begins.
	File string
	Line int
}

// kinds are the kinds of objects that cluster/ may contain, with their types.
var kinds = map[string]func() any{
	mcfgv1.GroupVersion.String() + " " + PoolKind:       func() any { return &mcfgv1.MachineConfigPool{} },
	operatorv1.GroupVersion.String() + " " + policyKind: func() any { return &operatorv1.MachineConfiguration{} },
	v1alpha1.GroupVersion.String() + " " + driftKind:    func() any { return &v1alpha1.DriftPolicy{} },
	v1alpha1.GroupVersion.String() + " " + rolloutKind:  func() any { return &v1alpha1.RolloutPolicy{} },
	mcfgv1.GroupVersion.String() + " " + imagesKind:     func() any { return &mcfgv1.PinnedImageSet{} },
}

// IsKind reports whether cluster/ may contain objects of a kind.
func IsKind(apiVersion, kind string) bool { return kinds[apiVersion+" "+kind] != nil }

// managed are the fields of a MachineConfigPool that Bunsen does not read from the repository. The renderer writes
// spec.configuration, and users write spec.paused on the cluster.
var managed = []string{"configuration", "paused"}

// Read reads the objects of cluster/. The parameter pools lists the pools that have their own documents. As soon as
// stop returns true, Read ends and returns nothing.
func Read(fsys fs.FS, pools []string, stop func() bool, found *origin.Findings) []Object {
	entries, err := fs.ReadDir(fsys, Dir)
	if err != nil {
		return nil // A repository without cluster/ has no cluster objects.
	}
	var out []Object
	for _, e := range entries {
		if stop() {
			return nil
		}
		file := path.Join(Dir, e.Name())
		at := origin.Pos{File: file}
		switch ext := path.Ext(file); {
		case strings.HasPrefix(e.Name(), ".") || ext == ".md":
		case e.IsDir() || ext != ".yaml" && ext != ".yml":
			found.Warnf(at, UnusedFile, "not read: only the *.yaml files of %s/ are read", Dir)
		case strings.HasPrefix(e.Name(), "kustomization."):
			found.Errorf(at, "cluster-kind", "%s/ is read file by file, without kustomize; remove it", Dir)
		default:
			out = append(out, readFile(fsys, file, found)...)
		}
	}
	slices.SortStableFunc(out, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Object.GetKind(), b.Object.GetKind()),
			cmp.Compare(a.Object.GetName(), b.Object.GetName()))
	})
	for i := 1; i < len(out); i++ {
		a, b := out[i-1], out[i]
		if a.Object.GetKind() == b.Object.GetKind() && a.Object.GetName() == b.Object.GetName() {
			found.Errorf(origin.Pos{File: b.File, Line: b.Line}, "duplicate-name",
				"%s %s occurs twice, also in %s:%d; keep one", b.Object.GetKind(), b.Object.GetName(), a.File, a.Line)
		}
	}
	checkRollouts(fsys, pools, out, found)
	checkImageSets(fsys, pools, out, found)
	return out
}
