package message_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/message"
)

func TestTranslateSaysWhatToWrite(t *testing.T) {
	for sentence, tc := range map[string]struct{ text, value, want string }{
		"a relative path is shown as an absolute one":   {"path not absolute", "etc/chrony.conf", `"etc/chrony.conf" is not an absolute path: write /etc/chrony.conf`},
		"a path is shown without its detours":           {"path is not fully simplified", "/etc/../x", `"/etc/../x" has parts that a path does not need (.., //, a / at the end): write /x`},
		"a unit gets a type":                            {"invalid systemd unit extension", "chronyd", `"chronyd" does not end in a type of unit: write chronyd.service, or end it in .socket, .mount, .automount, .swap, .target, .path, .timer, .slice or .scope`},
		"a drop-in gets .conf":                          {"invalid systemd drop-in extension", "10-x", `"10-x" is not a name of a drop-in: write 10-x.conf`},
		"a message without its value still makes sense": {"path not absolute", "", "the value is not an absolute path: write a path such as /etc/chrony.conf"},
		"a decoder's error keeps what stands before it": {"keys: illegal base64 data at input byte 4", "", "keys: it is not base64: write what `base64 -w0 FILE` prints, or, in Butane, the text itself as `inline:`"},
		"text of a unit is never quoted":                {`invalid unit content: found garbage after section name Service: "password=x"`, "", "there is text behind the [Name] of a section, on the same line: move it to the next line"},
		"an unknown message stays as it is":             {"something new", "x", "something new"},
	} {
		if got := message.Translate(tc.text, tc.value); got != tc.want {
			t.Errorf("%s:\n got %s\nwant %s", sentence, got, tc.want)
		}
	}
	if got, want := message.OfProblem(machineconfig.Problem{
		Path: "$.storage.luks.0", Place: "luks[0] root", Err: errors.New("clevis: thumbprint is required"),
	}), "luks[0] root: clevis: the tang server has no thumbprint: "+
		"add `thumbprint:`, as `tang-show-keys` prints it"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestClosest(t *testing.T) {
	words := []string{"resources", "replacements", "patches"}
	for typo, want := range map[string]string{
		"resorces": "resources", "patch": "", "patchs": "patches", "xyzzy": "",
		"resources": "resources",
	} {
		if got := message.Closest(typo, words); got != want {
			t.Errorf("%s: got %q, want %q", typo, got, want)
		}
	}
}

// clearAsTheyAre are the messages of the libraries that say well enough what is wrong and what to write.
func clearAsTheyAre(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/clear.txt")
	if err != nil {
		t.Fatal(err)
	}
	clear := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		clear[line] = true
	}
	return clear
}

// Each message that a validator of the pinned Ignition and Butane may return is in the table, or somebody has read it.
func TestEveryMessageOfTheLibrariesIsKnown(t *testing.T) {
	seen, clear := map[string]bool{}, clearAsTheyAre(t)
	for module, file := range map[string]string{
		"github.com/coreos/ignition/v2": "config/shared/errors/errors.go",
		"github.com/coreos/butane":      "config/common/errors.go",
	} {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
		if err != nil {
			t.Fatalf("finding %s: %v", module, err)
		}
		texts := errorTexts(t, filepath.Join(strings.TrimSpace(string(out)), file))
		if len(texts) < 50 {
			t.Fatalf("only %d messages in %s: is it read rightly?", len(texts), file)
		}
		for _, text := range texts {
			seen[text] = true
			if clear[text] == message.Known(text) {
				t.Errorf("%q: say what to write instead in table, or list it in testdata/clear.txt (one of them)", text)
			}
		}
	}
	for text := range clear {
		if !seen[text] {
			t.Errorf("%q is listed as clear, and no library has it", text)
		}
	}
}

// errorTexts are the arguments of errors.New in a file.
func errorTexts(t *testing.T, file string) (texts []string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatalf("reading %q: %v", file, err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 1 {
			return true
		}
		name, isSelector := call.Fun.(*ast.SelectorExpr)
		text, isText := call.Args[0].(*ast.BasicLit)
		if isSelector && isText && name.Sel.Name == "New" {
			if s, err := strconv.Unquote(text.Value); err == nil {
				texts = append(texts, s)
			}
		}
		return true
	})
	return texts
}

// TestDistance counts the bytes to add, remove or replace, in both directions.
func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "abc", 3},
		{"same", "same", 0},
		{"chrony.cnf", "chrony.conf", 1},
		{"flies", "files", 2},
		{"kitten", "sitting", 3},
	} {
		if got, back := message.Distance(test.a, test.b), message.Distance(test.b, test.a); got != test.want ||
			back != test.want {
			t.Errorf("%q to %q: %d, and back %d; want %d", test.a, test.b, got, back, test.want)
		}
	}
}
