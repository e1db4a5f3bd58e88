package pinnedimage_test

import (
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/pinnedimage"
)

var hash = "@sha256:" + strings.Repeat("0123456789abcdef", 4)

func TestNamesOfImages(t *testing.T) {
	for sentence, c := range map[string]struct{ name, problem string }{
		"a namespace and a name":                  {"registry.example.com/team/app" + hash, ""},
		"a port":                                  {"registry.example.com:5000/app" + hash, ""},
		"an address as host":                      {"127.0.0.1:5000/app" + hash, ""},
		"dots, dashes and underscores":            {"registry.example.com/a-b/c.d__e--f_g" + hash, ""},
		"nothing":                                 {"", "no digest"},
		"a tag alone":                             {"registry.example.com/app:v1", "no digest"},
		"a tag beside the digest":                 {"registry.example.com/app:v1" + hash, "remove the tag"},
		"a short digest":                          {"registry.example.com/app@sha256:abc", "64 lower-case"},
		"an upper-case digest":                    {"registry.example.com/app@sha256:" + strings.Repeat("A", 64), "64 lower-case"},
		"another algorithm":                       {"registry.example.com/app@sha512:" + strings.Repeat("a", 128), "64 lower-case"},
		"two digests":                             {"registry.example.com/app" + hash + hash, "64 lower-case"},
		"text after the digest":                   {"registry.example.com/app" + hash + "\n", "64 lower-case"},
		"a name of Docker Hub in short":           {"app" + hash, "a dot in HOST"},
		"a host without a dot":                    {"localhost:5000/app" + hash, "a dot in HOST"},
		"three levels, which the CRD refuses":     {"registry.example.com/a/b/c" + hash, "NAMESPACE"},
		"an option":                               {"--creds=a.b/c" + hash, "a dot in HOST"},
		"an option that looks like a host":        {"-x.example.com/app" + hash, "lower-case letters"},
		"a repository in upper case":              {"registry.example.com/App" + hash, "lower-case letters"},
		"a name that ends with a dash":            {"registry.example.com/app-" + hash, "lower-case letters"},
		"no repository":                           {"registry.example.com/" + hash, "lower-case letters"},
		"a line of TOML":                          {"registry.example.com/a\"]\n[crio]" + hash, "HOST[:PORT]"},
		"a blank":                                 {"registry.example.com/a b" + hash, "HOST[:PORT]"},
		"a scheme":                                {"https://registry.example.com/a" + hash, "HOST[:PORT]"},
		"a parent directory":                      {"registry.example.com/../a" + hash, "HOST[:PORT]"},
		"a password":                              {"user:pass@registry.example.com/a" + hash, "64 lower-case"},
		"more characters than the API server has": {"registry.example.com/" + strings.Repeat("a", 400) + hash, "at most 447"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := pinnedimage.Problem(c.name)
			if (got == "") != (c.problem == "") || !strings.Contains(got, c.problem) {
				t.Errorf("%q: %q, want %q", c.name, got, c.problem)
			}
		})
	}
}

func FuzzProblem(f *testing.F) {
	f.Add("registry.example.com/app" + hash)
	f.Add("-x.example.com/a\"\n" + hash)
	f.Fuzz(func(t *testing.T, name string) {
		if pinnedimage.Problem(name) == "" && (strings.ContainsAny(name, "\"'\\\n\r\x00 =,") || strings.HasPrefix(name,
			"-")) {
			t.Errorf("%q is valid", name)
		}
	})
}

func set(name, role string, generation int64, images ...string) mcfgv1.PinnedImageSet {
	s := mcfgv1.PinnedImageSet{ObjectMeta: metav1.ObjectMeta{
		Name: name, Generation: generation,
		Labels: map[string]string{"role": role},
	}}
	for _, image := range images {
		s.Spec.PinnedImages = append(s.Spec.PinnedImages, mcfgv1.PinnedImageRef{Name: mcfgv1.ImageDigestFormat(image)})
	}
	return s
}

func TestSetsOfAPool(t *testing.T) {
	all := []mcfgv1.PinnedImageSet{
		set("c", "worker", 1, "z", "y"), set("a", "worker", 2, "y", "x"),
		set("b", "master", 1, "m"), set("gone", "worker", 1, "g"),
	}
	now := metav1.Now()
	all[3].DeletionTimestamp = &now
	pool := func(role string, names ...string) *mcfgv1.MachineConfigPool {
		p := &mcfgv1.MachineConfigPool{}
		p.Spec.MachineConfigSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"role": role}}
		if role == "" {
			p.Spec.MachineConfigSelector = &metav1.LabelSelector{}
		}
		for _, name := range names {
			p.Spec.PinnedImageSets = append(p.Spec.PinnedImageSets, mcfgv1.PinnedImageSetRef{Name: name})
		}
		return p
	}
	for sentence, c := range map[string]struct {
		pool                  *mcfgv1.MachineConfigPool
		sets, images, missing string
	}{
		"by labels":                          {pool("worker"), "a c", "x y z", ""},
		"by name too":                        {pool("worker", "b"), "a b c", "m x y z", ""},
		"by both, once":                      {pool("worker", "a"), "a c", "x y z", ""},
		"by name alone":                      {pool("edge", "b", "none"), "b", "m", "none"},
		"one that is being deleted is away":  {pool("edge", "gone"), "", "", "gone"},
		"an empty selector selects no set":   {pool(""), "", "", ""},
		"no pool has sets of another's role": {pool("infra"), "", "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			sets, missing := pinnedimage.Of(c.pool, all)
			var names []string
			for _, s := range sets {
				names = append(names, s.Name)
			}
			if !slices.Equal(names, strings.Fields(c.sets)) || !slices.Equal(missing, strings.Fields(c.missing)) ||
				!slices.Equal(pinnedimage.Images(sets), strings.Fields(c.images)) {
				t.Errorf("%v, missing %v, images %v", names, missing, pinnedimage.Images(sets))
			}
		})
	}
}

func TestADigestIsThatOfTheContent(t *testing.T) {
	digest := func(sets ...mcfgv1.PinnedImageSet) string {
		var list []*mcfgv1.PinnedImageSet
		for i := range sets {
			list = append(list, &sets[i])
		}
		return pinnedimage.Digest(list)
	}
	base := digest(set("a", "x", 1, "i"))
	if digest() != "" || base != digest(set("a", "y", 1, "i")) || len(base) != 32 {
		t.Errorf("digests %q, %q", digest(), base)
	}
	for sentence, other := range map[string]string{
		"another generation": digest(set("a", "x", 2, "i")),
		"another image":      digest(set("a", "x", 1, "j")),
		"another name":       digest(set("b", "x", 1, "i")),
		"another set":        digest(set("a", "x", 1, "i"), set("b", "x", 1, "i")),
	} {
		if other == base {
			t.Errorf("%s has the same digest", sentence)
		}
	}
}
