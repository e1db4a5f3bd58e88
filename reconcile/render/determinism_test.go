package render

import (
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var update = flag.Bool("update", false, "write testdata/digests.txt from what testdata/corpus.json renders to")

// corpusCase is one pool of testdata/corpus.json, which stays as it is: it has every kind of entry, and configs that
// meet.
type corpusCase struct {
	Pool           string
	MachineConfigs []struct {
		Name, Role string
		Spec       mcfgv1.MachineConfigSpec
	}
}

func corpus(tb testing.TB) (cases []corpusCase) {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "corpus.json"))
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		tb.Fatal(err)
	}
	return cases
}

// TestRenderingIsTheSameEverywhere holds what a fixed corpus renders to against digests in the repository, whatever the
// order of the inputs: in another process, on another machine, after another release, the same
// content must have the same name and bytes. A difference here reboots every node of everybody.
func TestRenderingIsTheSameEverywhere(t *testing.T) {
	cases := corpus(t)
	r := rand.New(rand.NewSource(1))
	var got strings.Builder
	for n, c := range cases {
		var mcs []*mcfgv1.MachineConfig
		for _, m := range c.MachineConfigs {
			mcs = append(mcs,
				&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
					Name:   m.Name,
					Labels: map[string]string{RoleLabel: m.Role},
				}, Spec: m.Spec})
		}
		first := digestLine(Merge(c.Pool, mcs, Defaults{}))
		for range 5 {
			r.Shuffle(len(mcs), func(i, j int) { mcs[i], mcs[j] = mcs[j], mcs[i] })
			if again := digestLine(Merge(c.Pool, mcs, Defaults{})); again != first {
				t.Errorf("case %d in another order:\n%s\n%s", n, first, again)
			}
		}
		fmt.Fprintf(&got, "%02d %s\n", n, first)
	}
	golden := filepath.Join("testdata", "digests.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("rendering changed (-golden +now); names of configs in clusters would change with it:\n%s", diff)
	}
}

// digestLine is the name of a rendered config, a digest of its spec, and one of what is said about it.
func digestLine(r Rendered, err error) string {
	if err != nil {
		return fmt.Sprintf("refused %x", sha256.Sum256([]byte(err.Error())))
	}
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return err.Error()
	}
	said, err := json.Marshal([]any{r.Inputs, r.Warnings, r.Notices})
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s %x %x", r.Name, sha256.Sum256(spec), sha256.Sum256(said))
}
