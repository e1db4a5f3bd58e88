package secret_test

import (
	"os"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/policy/secret"
)

// TestEveryRuleIsDocumented compares the table of rules with docs/review.md.
func TestEveryRuleIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/review.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range secret.Rules() {
		if !strings.Contains(string(page), "| `"+r.Name+"` | ") || !strings.Contains(string(page), r.Purpose) {
			t.Errorf("docs/review.md lacks rule %s: %s", r.Name, r.Purpose)
		}
	}
}
