package render

import (
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// TestTheNewestSource is the same in each order in which the cache lists the MachineConfigs of a pool. Otherwise the
// pool would name another source at each look, and each look would be a write.
func TestTheNewestSource(t *testing.T) {
	noon := metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	source := func(name string, at *metav1.Time) *v1alpha1.GitSource {
		s := &v1alpha1.GitSource{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if at != nil {
			s.Status.AppliedCommit = &v1alpha1.CommitInfo{Time: *at}
		}
		return s
	}
	later := metav1.NewTime(noon.Add(time.Second))
	for sentence, tc := range map[string]struct {
		sources []*v1alpha1.GitSource
		want    string
	}{
		"there is none":                        {nil, ""},
		"none has applied a commit":            {[]*v1alpha1.GitSource{source("a", nil)}, ""},
		"the later commit":                     {[]*v1alpha1.GitSource{source("a", &noon), source("b", &later)}, "b"},
		"two commits of one second: the first": {[]*v1alpha1.GitSource{source("a", &noon), source("b", &noon)}, "a"},
		"one has applied none yet":             {[]*v1alpha1.GitSource{source("a", nil), source("b", &noon)}, "b"},
	} {
		for _, turned := range []bool{false, true} {
			f := facts{sources: map[string]*v1alpha1.GitSource{}}
			for i := range tc.sources {
				s := tc.sources[i]
				if turned {
					s = tc.sources[len(tc.sources)-1-i]
				}
				f.sources[s.Name] = s
				f.selected = append(f.selected, &mcfgv1.MachineConfig{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1alpha1.SourceLabel: s.Name}},
				})
			}
			got := ""
			if s := newestSource(f.selectedSources()); s != nil {
				got = s.Name
			}
			if got != tc.want {
				t.Errorf("%s, turned %t: source %q, want %q", sentence, turned, got, tc.want)
			}
		}
	}
}
