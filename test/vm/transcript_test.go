package vm

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// transcript is what was seen, as Markdown and, at the same time, in the test's log.
type transcript struct {
	mu   sync.Mutex
	t    *testing.T
	body strings.Builder
	rows []string
	hide *strings.Replacer
	// failed in the step under way.
	failed bool
}

// addresses are those that may be written down: loopback, QEMU's own network and what is reserved for documents.
var addresses = regexp.MustCompile(`\b\d{1,3}(\.\d{1,3}){3}\b`)

// step runs one step of the life and writes down how it ended.
func (w *transcript) step(t *testing.T, title string, do func(t *testing.T)) {
	t.Helper()
	begin, ran := time.Now(), false
	ok := t.Run(title, func(t *testing.T) {
		w.mu.Lock()
		w.t, w.failed, ran = t, false, true
		w.mu.Unlock()
		w.write("\n## %d. %s\n", len(w.rows)+1, title)
		do(t)
	})
	if !ran { // go test -run left it out
		return
	}
	verdict := "PASS"
	if !ok || w.failed {
		verdict = "FAIL"
	}
	took := time.Since(begin).Round(100 * time.Millisecond)
	w.write("\n**%s** after %s\n", verdict, took)
	w.rows = append(w.rows, fmt.Sprintf("| %d | %s | %s | %s |", len(w.rows)+1, title, verdict, took))
	fmt.Printf("%s  %s (%s)\n", verdict, title, took)
}

// say writes a sentence.
func (w *transcript) say(format string, args ...any) { w.write("\n"+format+"\n", args...) }

// show writes what was typed where, and what came back.
func (w *transcript) show(prompt, typed, out string) {
	if out != "" {
		out = "\n" + out
	}
	w.write("\n```text\n%s %s%s\n```\n", prompt, typed, out)
}

// check writes down whether something is so, with what was seen; if not, the step has failed.
func (w *transcript) check(so bool, what string, seen any) {
	verdict := "PASS"
	if !so {
		verdict = "FAIL"
		w.mu.Lock()
		w.failed = true
		w.t.Errorf("%s: saw %v", what, seen)
		w.mu.Unlock()
	}
	w.write("- %s: %s: `%s`\n", verdict, what, strings.ReplaceAll(fmt.Sprint(seen), "\n", "` `"))
}

func (w *transcript) write(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.hide.Replace(fmt.Sprintf(format, args...))
	w.body.WriteString(text)
	fmt.Print(text)
}

// save writes the page. What must not stand in it is an error, not left out in silence.
func (w *transcript) save(path, head string) error {
	text := head + "\n| | Step | Result | Time |\n|---|---|---|---|\n" + strings.Join(w.rows, "\n") + "\n" +
		w.body.String()
	for _, a := range addresses.FindAllString(text, -1) {
		if !strings.HasPrefix(a, "127.") && !strings.HasPrefix(a, "10.0.2.") && !strings.HasPrefix(a, "192.0.2.") &&
			a != "0.0.0.0" {
			return fmt.Errorf("writing the transcript: it has the address %s", a)
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
