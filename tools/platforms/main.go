package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/tools/go/packages"
)

const module = "github.com/bunsen-os/bunsen/"

// platforms are those of the CLI whose sources differ from those of the machine that runs the tests, and one of each
// width of an address.
var platforms = []string{"linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func main() {
	root := flag.String("root", "..", "the root of the repository")
	flag.Parse()
	if err := check(*root, platforms, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// check checks the types for all platforms, and says for which ones it did.
func check(root string, on []string, out *os.File) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return fmt.Errorf("finding the repository: %w", err)
	}
	files := parsed{root: root, files: map[string]*ast.File{}}
	fset := token.NewFileSet()
	var problems []error
	for _, platform := range on {
		problems = append(problems, files.check(fset, platform))
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	fmt.Fprintf(out, "platforms: cmd/bunsen has the types of %s\n", strings.Join(on, ", "))
	return nil
}

// parsed are files that were parsed for one platform: most are the same for the next.
type parsed struct {
	root  string
	mu    sync.Mutex
	files map[string]*ast.File
}

// parse parses a file once. Of other modules, only the declarations count, and the bodies of their functions would fill
// the memory.
func (p *parsed) parse(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
	p.mu.Lock()
	known := p.files[name]
	p.mu.Unlock()
	if known != nil {
		return known, nil
	}
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		return file, err
	}
	if !strings.HasPrefix(name, p.root+string(filepath.Separator)) {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
	}
	p.mu.Lock()
	p.files[name] = file
	p.mu.Unlock()
	return file, nil
}

// check checks the types for one platform.
func (p *parsed) check(fset *token.FileSet, platform string) error {
	system, arch, _ := strings.Cut(platform, "/")
	environment := append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	list := exec.Command("go", "list", "-deps", "./cmd/bunsen")
	list.Dir, list.Env, list.Stderr = p.root, environment, os.Stderr
	names, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing the packages of cmd/bunsen for %s: %w", platform, err)
	}
	isForeign := func(name string) bool { return !strings.HasPrefix(name, module) }
	own := slices.DeleteFunc(strings.Fields(string(names)), isForeign)
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports |
			packages.NeedDeps | packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax |
			packages.NeedTypesInfo,
		Dir: p.root, Env: environment, Fset: fset, ParseFile: p.parse,
	}, own...)
	if err != nil {
		return fmt.Errorf("reading the packages of cmd/bunsen for %s: %w", platform, err)
	}
	var problems []error
	for _, pkg := range loaded {
		for _, e := range pkg.Errors {
			problems = append(problems, fmt.Errorf("%s: %w", platform, e))
		}
	}
	return errors.Join(problems...)
}
