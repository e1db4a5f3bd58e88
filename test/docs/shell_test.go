package docs_test

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// programs are all that the documentation tells to type. Those of others are taken as they are; a new one fails until
// somebody has looked at it.
var programs = map[string]func(*manual, *testing.T, []string) string{
	"test/real/try.sh": nil, // test/lab/cluster runs it.
	"bunsen":           (*manual).bunsen,
	"make":             (*manual).make,
	"go":               nil,
	"git":              nil,
	"kubectl":          nil,
	"helm":             nil,
	"kustomize":        nil,
	"cp":               nil,
	"mv":               nil,
	"cosign":           nil,
	"umask":            nil,
	"mkdir":            nil,
	"oc":               nil,
	"ssh":              nil,
	"cd":               nil,
	"sed":              nil,
	"export":           nil,
	"date":             nil,
	// Its own tests run every line of its help and of the units.
	"machine-config-daemon": nil,
	"machine-config-server": (*manual).server,
	"chmod":                 nil,
	"curl":                  nil,
	"echo":                  nil,
	"sha256sum":             nil,
	"openssl":               nil,
	"cut":                   nil,
	"base64":                nil,
	"grep":                  nil,
	"sort":                  nil,
	"uniq":                  nil,
	"tar":                   nil,
	"install":               nil,
	"qemu-img":              nil,
	"qemu-system-x86_64":    nil,
	"npm":                   nil,
}

// manual is what the binary and the Makefile say of themselves.
type manual struct {
	bin   string
	helps map[string]string
	// serving is the help of machine-config-server, once somebody asked for it.
	serving string
	// verbs are those that `bunsen --help` lists.
	verbs []string
	// targets of the Makefile.
	targets map[string]bool
}

// newManual builds the binary from the tree as it is: an old one would know of old flags.
func newManual(t *testing.T) *manual {
	t.Helper()
	m := &manual{bin: built(t, "bunsen"), helps: map[string]string{}, targets: map[string]bool{}}
	makefile, err := fs.ReadFile(root, "Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(string(makefile), -1) {
		m.targets[target[1]] = true
	}
	m.list(t)
	return m
}

// built is a program of ours.
func built(t *testing.T, name string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), name)
	build := exec.Command("go", "build", "-o", bin, "./cmd/"+name)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", name, err, out)
	}
	return bin
}

// help is what `bunsen VERB --help` prints, also for two words such as drift show; empty for a verb that is none.
func (m *manual) help(t *testing.T, verb string) string {
	t.Helper()
	if text, ok := m.helps[verb]; ok {
		return text
	}
	out, err := exec.Command(m.bin, append(strings.Fields(verb), "--help")...).CombinedOutput()
	m.helps[verb] = string(out)
	if err != nil || !strings.Contains(string(out), "bunsen "+verb) {
		m.helps[verb] = ""
	}
	return m.helps[verb]
}

// list asks the binary for its verbs.
func (m *manual) list(t *testing.T) {
	t.Helper()
	out, err := exec.Command(m.bin, "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range regexp.MustCompile(`(?m)^  ([a-z-]+) +[A-Z]`).FindAllStringSubmatch(string(out), -1) {
		m.verbs = append(m.verbs, v[1])
	}
	if len(m.verbs) < 8 {
		t.Fatalf("only %v: is the help read rightly?\n%s", m.verbs, out)
	}
}

var flag = regexp.MustCompile(`^(--?)([a-z][a-z-]*)(?:=(.*))?$`)

// bunsen says what is wrong with the arguments of a command line.
func (m *manual) bunsen(t *testing.T, args []string) string {
	if len(args) == 0 {
		return ""
	}
	verb := args[0]
	if strings.HasPrefix(verb, "-") {
		return map[bool]string{false: "bunsen itself has no flag " +
			verb}[slices.Contains([]string{"--help", "-h", "--version"}, verb)]
	}
	help := m.help(t, verb)
	if help == "" || !slices.Contains(m.verbs, verb) {
		return "there is no verb " + verb
	}
	if len(args) > 1 && regexp.MustCompile(`(?m)^  `+regexp.QuoteMeta(args[1])+` {2,}\S`).MatchString(help) {
		args = append([]string{verb + " " + args[1]}, args[2:]...) // token create
		verb, help = args[0], m.help(t, args[0])
	}
	for i, arg := range args[1:] {
		f := flag.FindStringSubmatch(arg)
		if f == nil {
			continue
		}
		described := regexp.MustCompile(`(?m)^ +(?:-\w, )?--` + f[2] + `\b.*$`)
		if f[1] == "-" {
			described = regexp.MustCompile(`(?m)^ +-` + f[2] + `, --[a-z-]+\b.*$`)
		}
		about := described.FindString(help)
		if about == "" {
			return "bunsen " + verb + " has no flag " + arg
		}
		if f[2] != "o" && f[2] != "output" || i+2 >= len(args) {
			continue
		}
		for _, value := range strings.Split(strings.ReplaceAll(args[i+2], `\|`, "|"), "|") {
			if !regexp.MustCompile(`\b` + regexp.QuoteMeta(value) + `\b`).MatchString(about) {
				return "bunsen " + verb + " has no output " + value + ": " + strings.TrimSpace(about)
			}
		}
	}
	return ""
}

// server says which flag machine-config-server does not have.
func (m *manual) server(t *testing.T, args []string) string {
	if m.serving == "" {
		out, err := exec.Command(built(t, "machine-config-server"), "--help").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		m.serving = string(out)
	}
	for _, arg := range args {
		if f := flag.FindStringSubmatch(arg); f != nil && !regexp.MustCompile(`(?m)^ +(-\w, )?--`+f[2]+`\b`).
			MatchString(m.serving) {
			return "machine-config-server has no flag " + arg
		}
	}
	return ""
}

// make says which target the Makefile does not have.
func (m *manual) make(_ *testing.T, args []string) string {
	for _, arg := range args {
		if regexp.MustCompile(`^[a-z-]+$`).MatchString(arg) && !m.targets[arg] {
			return "the Makefile has no target " + arg
		}
	}
	return ""
}

var (
	separator  = regexp.MustCompile(` *(?:&&|\|\||;|\|) +`)
	comment    = regexp.MustCompile(`(^| )# .*$`)
	assignment = regexp.MustCompile(`^[A-Z_]+=\S*(?: +|$)`)
	inner      = regexp.MustCompile(`\$\(([^()]*)\)`)
	quoted     = regexp.MustCompile(`"[^"]*"|'[^']*'|<[^<>]*>`)
)

// commands are the command lines in a line of shell, without what quotation marks, <…> and $(…) hold.
func commands(text string) [][]string {
	text = strings.TrimPrefix(comment.ReplaceAllString(text, ""), "$ ")
	var out [][]string
	for _, m := range inner.FindAllStringSubmatch(text, -1) {
		out = append(out, commands(m[1])...)
	}
	text = quoted.ReplaceAllString(inner.ReplaceAllString(text, "X"), "X")
	for _, c := range separator.Split(text, -1) {
		if words := strings.Fields(assignment.ReplaceAllString(strings.TrimSpace(c), "")); len(words) > 0 {
			out = append(out, words)
		}
	}
	return out
}

// What the documentation tells to type exists: verbs, flags, outputs, targets.
func TestCommands(t *testing.T) {
	m := newManual(t)
	t.Run("every command of the documentation exists", m.everyCommandExists)
	t.Run("what does not exist is said", m.whatDoesNotExistIsSaid)
	t.Run("the table has every verb", m.theTableHasEveryVerb)
}

func (m *manual) everyCommandExists(t *testing.T) {
	seen := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			// A command that goes on in the next line is one.
			for i, l := range strings.Split(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
				if b.lang == "sh" || b.lang == "console" && strings.HasPrefix(l, "$ ") {
					seen += typed(t, m, p.file, line{b.line + 1 + i, l}, true)
				}
			}
		}
		for _, l := range p.code {
			seen += typed(t, m, p.file, l, false)
		}
	}
	for _, l := range workflows(t) {
		seen += typed(t, m, "examples/ci", l, false)
	}
	if seen < 60 {
		t.Errorf("only %d commands: are pages read rightly?", seen)
	}
}

// typed checks a line. In a block of shell every program must be known; elsewhere code may be anything.
func typed(t *testing.T, m *manual, file string, l line, shell bool) (seen int) {
	t.Helper()
	for _, c := range commands(strings.ReplaceAll(l.text, `\|`, "|/")) {
		check, known := programs[c[0]]
		if !known {
			if shell {
				t.Errorf("%s:%d: %s: nobody has looked at this program: add it to programs", file, l.number, c[0])
			}
			continue
		}
		seen++
		if check == nil {
			continue
		}
		if wrong := check(m, t, plain(c[1:])); wrong != "" {
			t.Errorf("%s:%d: %s", file, l.number, wrong)
		}
	}
	return seen
}

// plain takes the marks of a synopsis from the words of a command line: [-o text|json].
func plain(words []string) []string {
	var out []string
	for _, w := range words {
		out = append(out, strings.Trim(strings.ReplaceAll(w, "|/", "|"), "[]…"))
	}
	return out
}

// workflows are the lines that the examples of continuous integration run. They are YAML, too.
func workflows(t *testing.T) []line {
	t.Helper()
	var out []line
	err := fs.WalkDir(root, "examples/ci", func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || path.Ext(p) != ".yml" {
			return err
		}
		text, err := os.ReadFile(filepath.Join("../..", p))
		if err != nil {
			return err
		}
		var doc yaml.Node
		if err := yaml.Unmarshal(text, &doc); err != nil {
			t.Errorf("%s: %v", p, err)
			return nil
		}
		run(&doc, "", &out)
		return nil
	})
	if err != nil || len(out) < 8 {
		t.Fatalf("%d lines: %v", len(out), err)
	}
	return out
}

// run finds what a workflow has a shell do.
func run(n *yaml.Node, key string, out *[]line) {
	switch {
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			run(n.Content[i+1], n.Content[i].Value, out)
		}
	case n.Kind != yaml.ScalarNode:
		for _, c := range n.Content {
			run(c, key, out)
		}
	case key == "run" || strings.HasSuffix(key, "script"):
		for i, l := range strings.Split(n.Value, "\n") {
			*out = append(*out, line{n.Line + i, l})
		}
	}
}

func (m *manual) whatDoesNotExistIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		"bunsen frobnicate":                         "there is no verb frobnicate",
		"git push && bunsen help":                   "",
		"bunsen diff main HEAD -o markdown":         "",
		"bunsen diff --no-such-flag":                "bunsen diff has no flag --no-such-flag",
		"bunsen diff -z":                            "bunsen diff has no flag -z",
		"bunsen validate -o xml":                    "bunsen validate has no output xml",
		"bunsen token create --pool worker":         "",
		"bunsen token create --pools":               "bunsen token create has no flag --pools",
		"bunsen token --pool worker":                "bunsen token has no flag --pool",
		"machine-config-server --from-nowhere x":    "machine-config-server has no flag --from-nowhere",
		"`bunsen validate [DIR] [-o text|jsonx]`":   "bunsen validate has no output jsonx",
		`bunsen comment "$(bunsen nothing a)" HEAD`: "there is no verb nothing",
		"make verify tset":                          "the Makefile has no target tset",
	} {
		got := ""
		for _, c := range commands(strings.ReplaceAll(strings.Trim(text, "`"), "|", "|/")) {
			if check := programs[c[0]]; check != nil && got == "" {
				got = check(m, t, plain(c[1:]))
			}
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// theTableHasEveryVerb compares docs/cli.md with the binary.
func (m *manual) theTableHasEveryVerb(t *testing.T) {
	text, err := fs.ReadFile(root, "docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `bunsen ([a-z-]+)").FindAllStringSubmatch(string(text), -1) {
		rows[row[1]] = true
	}
	for _, verb := range m.verbs {
		if !rows[verb] && verb != "help" {
			t.Errorf("docs/cli.md has no row for bunsen %s", verb)
		}
		delete(rows, verb)
	}
	for _, verb := range slices.Sorted(maps.Keys(rows)) {
		t.Errorf("docs/cli.md has bunsen %s, which is no verb", verb)
	}
}
