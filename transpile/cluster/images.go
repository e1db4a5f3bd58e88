package cluster

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// images refuses names of images in a PinnedImageSet that the API server or a container runtime would refuse.
func (r *reader) images(root *yaml.Node, s *mcfgv1.PinnedImageSet) {
	if len(s.Spec.PinnedImages) == 0 {
		r.Errorf(fieldPosition(r.file, root, `"spec.pinnedImages"`), "pinned-image",
			"spec.pinnedImages: the PinnedImageSet has no images; name 1 to 500")
	}
	for i, image := range s.Spec.PinnedImages {
		if problem := pinnedimage.Problem(string(image.Name)); problem != "" {
			field := fmt.Sprintf("spec.pinnedImages[%d].name", i)
			r.Errorf(fieldPosition(r.file, root, fmt.Sprintf("%q", field)), "pinned-image", "%s: %q: %s", field,
				image.Name, problem)
		}
	}
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
