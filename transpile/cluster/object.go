package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/internal/schedule"
	"go.yaml.in/yaml/v3"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	operatorv1 "github.com/openshift/api/operator/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// readFile reads one file, which may have several objects.
func readFile(fsys fs.FS, file string, found *origin.Findings) []Object {
	r := &reader{Findings: found, file: file}
	src, err := fs.ReadFile(fsys, file)
	if err != nil {
		r.Errorf(origin.Pos{File: file}, "missing", "%v", err)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return r.objects
		case err != nil:
			at := origin.Pos{File: file, Line: 1} // The YAML library names no line if the error is in the first line.
			if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
				at.Line, _ = strconv.Atoi(m[1])
			}
			r.Errorf(at, "yaml", "not valid YAML: %s",
				yamlLine.ReplaceAllString(strings.TrimPrefix(err.Error(), "yaml: "), "")+quotesHint(err))
			return r.objects
		}
		if root := doc.Content[0]; root.Tag != "!!null" {
			r.object(root)
		}
	}
}

// quotesHint returns advice for a value that begins with a special character of YAML, as the schedule of a window may
// do.
func quotesHint(err error) string {
	for _, text := range []string{"alphabetic or numeric", "cannot start any token", "unknown anchor"} {
		if strings.Contains(err.Error(), text) {
			return "; put a value that begins with * or @ in quotes"
		}
	}
	return ""
}

// checkRollouts checks the RolloutPolicies of a repository against its pools.
func checkRollouts(fsys fs.FS, pools []string, objects []Object, found *origin.Findings) {
	r := &rolloutChecker{Findings: found, fs: fsys, pools: map[string]*mcfgv1.MachineConfigPool{}}
	for _, name := range slices.Concat(standardPools, pools) {
		r.addPool(name, nil)
	}
	for _, o := range objects {
		switch o.Object.GetKind() {
		case PoolKind:
			r.addPool(o.Object.GetName(), o.Object.GetLabels())
		case rolloutKind:
			var p v1alpha1.RolloutPolicy
			// No error is possible, because the object was decoded before.
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p) == nil {
				r.policies, r.objects = append(r.policies, p), append(r.objects, o)
			}
		}
	}
	for i, p := range r.policies {
		o := r.objects[i]
		r.warnUnknownPools(o, "spec.pools", p.Spec.Pools)
		r.warnUnknownPools(o, "spec.after", p.Spec.After)
		r.warnNoPool(o, p.Spec.MachineConfigPoolSelector)
		for _, doubt := range schedule.Doubts(&p) {
			r.Warnf(o.Position(r.fs, doubt.Path), "rollout", "%s: %s", doubt.Path, doubt.Text)
		}
	}
	r.warnUnusedJobs()
	r.checkCycles()
}

// checkImageSets checks the PinnedImageSets of a repository against its pools: whether a pool has each of them, and
// whether the repository has each that a pool names.
func checkImageSets(fsys fs.FS, pools []string, objects []Object, found *origin.Findings) {
	var sets []mcfgv1.PinnedImageSet
	all := map[string]*mcfgv1.MachineConfigPool{}
	for _, name := range slices.Concat(standardPools, pools) {
		all[name] = &mcfgv1.MachineConfigPool{Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: metav1.SetAsLabelSelector(map[string]string{v1alpha1.RoleLabel: name}),
		}}
	}
	for _, o := range objects {
		switch o.Object.GetKind() {
		case imagesKind:
			var s mcfgv1.PinnedImageSet
			// The object was decoded before.
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &s) == nil {
				sets = append(sets, s)
			}
		case PoolKind:
			var p mcfgv1.MachineConfigPool
			if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object.Object, &p) == nil {
				all[p.Name] = &p
			}
		}
	}
	used := map[string]bool{}
	for _, pool := range all {
		chosen, _ := pinnedimage.Of(pool, sets)
		for _, s := range chosen {
			used[s.Name] = true
		}
	}
	for _, o := range objects {
		switch name := o.Object.GetName(); o.Object.GetKind() {
		case imagesKind:
			if !used[name] {
				found.Warnf(origin.Pos{File: o.File, Line: o.Line}, "pinned-image", "no pool of this repository has "+
					"PinnedImageSet %s: give it the label %s: POOL, or name it in spec.pinnedImageSets of a "+
					"MachineConfigPool", name, v1alpha1.RoleLabel)
			}
		case PoolKind:
			if _, missing := pinnedimage.Of(all[name], sets); len(missing) > 0 {
				found.Warnf(o.Position(fsys, "spec.pinnedImageSets"), "pinned-image",
					"spec.pinnedImageSets names sets that this repository does not have: %s",
					strings.Join(missing, ", "))
			}
		}
	}
}
