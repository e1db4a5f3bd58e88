package pinnedimage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Of returns the sets of a pool, sorted by name: those whose labels its machineConfigSelector matches, and those that
// its spec.pinnedImageSets names. The parameter missing lists the named sets that do not exist. An empty or invalid
// selector matches nothing.
func Of(pool *mcfgv1.MachineConfigPool, all []mcfgv1.PinnedImageSet) (sets []*mcfgv1.PinnedImageSet, missing []string) {
	selector, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector)
	if err != nil || selector.Empty() {
		selector = labels.Nothing()
	}
	named := map[string]bool{}
	for _, ref := range pool.Spec.PinnedImageSets {
		named[ref.Name] = true
	}
	for i := range all {
		s := &all[i]
		if s.DeletionTimestamp == nil && (named[s.Name] || selector.Matches(labels.Set(s.Labels))) {
			sets = append(sets, s)
			delete(named, s.Name)
		}
	}
	for name := range named {
		missing = append(missing, name)
	}
	slices.Sort(missing)
	slices.SortFunc(sets, func(a, b *mcfgv1.PinnedImageSet) int { return strings.Compare(a.Name, b.Name) })
	return sets, missing
}

// Images returns the names of the images of sets, sorted and without duplicates.
func Images(sets []*mcfgv1.PinnedImageSet) []string {
	var out []string
	for _, s := range sets {
		for _, image := range s.Spec.PinnedImages {
			out = append(out, string(image.Name))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Digest returns a short digest of sets: of their names, generations and images. It is empty for no sets.
func Digest(sets []*mcfgv1.PinnedImageSet) string {
	if len(sets) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, s := range sets {
		fmt.Fprintf(sum, "%s %d\n", s.Name, s.Generation)
		for _, image := range s.Spec.PinnedImages {
			fmt.Fprintf(sum, " %s\n", image.Name)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
