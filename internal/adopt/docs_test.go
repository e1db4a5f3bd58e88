package adopt_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/internal/adopt"
)

// The example of docs/adopting.md is what an import gives.
func TestTheDocumentedExampleIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/adopting.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, part := range strings.Split(string(page), "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) < 2 {
		t.Fatalf("the page has %d blocks, want a MachineConfig and a document first", len(blocks))
	}
	repo, findings := imported(t, adopt.Options{}, adopt.Input{Name: "dump.yaml", Data: []byte(blocks[0])})
	rendersEqual(t, repo, findings)
	if diff := cmp.Diff(blocks[1], string(repo.Files["pools/worker/10-chrony.bu"])); diff != "" {
		t.Errorf("(-documented +imported):\n%s", diff)
	}
}
