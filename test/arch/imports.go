package arch

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// imported is one import of a production file.
type imported struct {
	pkg  Package
	room Room
	path string
	at   string // path:line
	// kind says which I/O the file may do.
	kind Kind
}

// eachImport calls f for every import of production code in the root module
// whose package has a row in the table.
func eachImport(r Repo, f func(imported)) {
	for _, p := range r.inRoot() {
		room, ok := roomOf(Rooms, p.Dir)
		if !ok {
			continue
		}
		for _, file := range p.production() {
			for _, spec := range file.Syntax.Imports {
				f(imported{p, room, unquote(spec), file.where(spec), room.kindOf(file.Path)})
			}
		}
	}
}

// where names the room, and the file if its room has files of two kinds.
func (i imported) where() string {
	if i.room.Kind == Mixed {
		file, _, _ := strings.Cut(i.at, ":")
		return file
	}
	return i.pkg.Dir
}

func (i imported) violation(rule, message string) Violation {
	return Violation{rule, i.pkg.Dir + "->" + i.path, i.at, message}
}

// everyPackageHasARoom requires that a row of the table names each package, so that its purpose is written down.
func everyPackageHasARoom(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.inRoot() {
		if _, ok := roomOf(Rooms, p.Dir); !ok {
			vs = append(vs, Violation{"room", p.Dir, p.where(), fmt.Sprintf("package %s is in no row of the table: "+
				"which room is this? Place its code in an existing room, or add a row with its reason to "+
				"test/arch/rooms.go", p.Dir)})
		}
	}
	return vs
}

// importsFollowTheTable checks the direct imports between the project's packages.
func importsFollowTheTable(r Repo) []Violation {
	var vs []Violation
	eachImport(r, func(i imported) {
		if dir, ours := r.ours(i.path); ours && !coversAny(i.room.Allowed, dir) {
			vs = append(vs, i.violation("imports", fmt.Sprintf("%s may not import %s: %s", i.pkg.Dir, dir,
				i.room.Because)))
		}
	})
	return vs
}

// nobodyImportsAShell reports imports of shells. A command constructs a shell and passes it on as an interface. A shell
// below the directory of another one is a part of it, and the parts may import each other.
func nobodyImportsAShell(r Repo) []Violation {
	var vs []Violation
	eachImport(r, func(i imported) {
		dir, ours := r.ours(i.path)
		if !ours || i.room.Kind == Command || i.room.Kind == Test {
			return
		}
		switch target, _ := roomOf(Rooms, dir); target.Kind {
		case Shell:
			if isPart(i.room, target) {
				return
			}
			vs = append(vs, i.violation("shell", fmt.Sprintf("%s imports the shell %s: only cmd constructs shells; "+
				"declare the interface that is needed here, and let cmd hand it in", i.pkg.Dir, dir)))
		case Test, Command:
			vs = append(vs,
				i.violation("shell", fmt.Sprintf("%s imports %s, which is kind %s and never ships as a part: move "+
					"what is needed into a room", i.pkg.Dir, dir, target.Kind)))
		}
	})
	return vs
}

// isPart reports whether two shells are parts of one: one of them is below the other's directory, or both are below
// that of a third one.
func isPart(a, b Room) bool {
	below := func(x, dir string) bool { return strings.HasPrefix(x, dir+"/") }
	whole, _ := roomOf(Rooms, path.Dir(a.Prefix))
	siblings := whole.Kind.shell() && below(a.Prefix, whole.Prefix) && below(b.Prefix, whole.Prefix)
	return a.Kind.shell() && b.Kind.shell() && (below(a.Prefix, b.Prefix) || below(b.Prefix, a.Prefix) || siblings)
}

// theWallStands reports imports between the code of the three processes. They share only names and types.
func theWallStands(r Repo) []Violation {
	var vs []Violation
	eachImport(r, func(i imported) {
		dir, ours := r.ours(i.path)
		from, to := side(i.pkg.Dir), side(dir)
		if ours && from != "" && to != "" && from != to {
			vs = append(vs, i.violation("wall", fmt.Sprintf("%s imports %s across the wall: reconcile, mcs and mcd "+
				"are three processes that share only api and policy; move the shared words there", i.pkg.Dir, dir)))
		}
	})
	return vs
}

func side(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	if slices.Contains([]string{"reconcile", "mcs", "mcd"}, first) {
		return first
	}
	return ""
}

// worldly are standard packages for I/O, each with the kinds of rooms that must not import them.
var worldly = []struct {
	Prefix, Because string
	Kinds           []Kind
}{
	{"os", "touches files and processes: take an io/fs.FS or a value", inner},
	{"net", "touches the network: net/url and net/netip are the pure parts", inner},
	{"syscall", "touches the kernel", inner},
	{"plugin", "loads code at run time", inner},
	{"flag", "reads the process's arguments: take a value", inner},
	{"path/filepath", "depends on the machine: paths in trees and configs are slash paths, use path", inner},
	{"io/ioutil", "touches files", inner},
	{"math/rand", "gives other bytes each time", inner},
	{"crypto/rand", "gives other bytes each time: take an io.Reader", inner},
	{"log", "logs: pure code returns a report or a verdict, the shell logs", inner},
	{"context", "is for shells and ports: a pure function is not cancelled, it returns", []Kind{Pure, Reader}},
	{"testing", "is for tests", []Kind{Pure, Reader, Ports, Data, Shell, Command}},
}

var inner = []Kind{Pure, Reader, Ports, Data}

// harmless are exceptions from the prefixes in worldly.
var harmless = []string{"net/url", "net/netip", "net/textproto"}

// pureRoomsStayPure reports imports of standard packages for I/O in rooms without I/O.
func pureRoomsStayPure(r Repo) []Violation {
	var vs []Violation
	eachImport(r, func(i imported) {
		if slices.Contains(harmless, i.path) {
			return
		}
		for _, w := range worldly {
			if covers(w.Prefix+"/...", i.path) && slices.Contains(w.Kinds, i.kind) {
				vs = append(vs, i.violation("std", fmt.Sprintf("%s (kind %s) imports %s, which %s", i.where(),
					i.kind, i.path, w.Because)))
				return
			}
		}
	})
	return vs
}

// ignitionVersion is the version of Ignition in which configs are kept.
const ignitionVersion = "github.com/coreos/ignition/v2/config/v3_5"

// librariesAreNamed requires that a room names each third-party package that it imports.
func librariesAreNamed(r Repo) []Violation {
	var vs []Violation
	eachImport(r, func(i imported) {
		first, _, _ := strings.Cut(i.path, "/")
		if _, ours := r.ours(i.path); ours || !strings.Contains(first, ".") {
			return
		}
		if strings.HasPrefix(i.path, ignitionVersion) && i.pkg.Dir != "api/ignition" {
			vs = append(vs, i.violation("library", i.pkg.Dir+" imports a version of Ignition: use api/ignition, so "+
				"that the next version is one edit"))
			return
		}
		for _, lib := range i.room.Libraries {
			if i.room.Kind == Mixed && i.kind == Pure && slices.Contains(kubeClient, lib) {
				continue // A decision asks no API server.
			}
			if lib == "*" || i.path == lib || strings.HasPrefix(i.path, lib) {
				return
			}
		}
		vs = append(vs, i.violation("library", fmt.Sprintf("%s (kind %s) imports %s, which is not among its "+
			"libraries: %s. Move the call to the room that has it, or name the library in test/arch/rooms.go with "+
			"a reason", i.where(), i.kind, i.path, i.room.Because)))
	})
	return vs
}

// worldlyCalls are functions of harmless packages that nevertheless do I/O or read the clock.
var worldlyCalls = map[string]struct {
	names   []string
	because string
}{
	"time": {
		[]string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
		"reads the clock: take now as an argument",
	},
	"fmt": {
		[]string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
		"writes to the process's output: return the text, or take an io.Writer",
	},
}

// pureRoomsTakeTheClock reports uses of the clock and of printing in rooms without I/O.
func pureRoomsTakeTheClock(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.inRoot() {
		room, _ := roomOf(Rooms, p.Dir)
		for _, f := range p.production() {
			if !room.kindOf(f.Path).free() {
				continue
			}
			for pkg, calls := range worldlyCalls {
				f.eachCall(pkg, func(sel *ast.SelectorExpr) {
					if slices.Contains(calls.names, sel.Sel.Name) {
						name := pkg + "." + sel.Sel.Name
						vs = append(vs, Violation{
							"clock", p.Dir + "->" + name, f.where(sel),
							fmt.Sprintf("%s (kind %s) uses %s, which %s", p.Dir, room.kindOf(f.Path), name,
								calls.because),
						})
					}
				})
			}
		}
	}
	return vs
}

// eachCall calls found for each use of an imported package's names in a file.
func (f File) eachCall(importPath string, found func(*ast.SelectorExpr)) {
	local := f.local(importPath)
	if local == "" {
		return
	}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local {
				found(sel)
			}
		}
		return true
	})
}
