package fleet

import (
	"os/exec"
	"strings"
	"testing"
)

// TestForeignTextIsOneWord: a shell takes the text of other people as one word and executes nothing of it, also where
// it does not know comments.
func TestForeignTextIsOneWord(t *testing.T) {
	for _, text := range []string{
		"chrony: use site NTP", `Revert "chrony"`, "it's", "$(touch evil)", "`touch evil`", `a\`, "a; touch evil #", "!!",
		"a' $(touch evil) '", "", "two\nlines",
	} {
		for name, quoted := range map[string]string{"note": ShellNote(text), "word": ShellWord(text)} {
			cmd := exec.Command("sh", "-c", "printf %s "+quoted)
			cmd.Dir = t.TempDir()
			out, err := cmd.Output()
			want := text
			if name == "note" {
				want = strings.ReplaceAll(text, "\n", " ")
			}
			if err != nil || string(out) != want {
				t.Errorf("%s %s of %q is %q, %v", name, quoted, text, out, err)
			}
			if name == "note" && strings.Contains(quoted, "!") && !strings.HasPrefix(quoted, "'") {
				t.Errorf("a terminal replaces the exclamation mark of %s", quoted)
			}
		}
	}
}
