package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// byPath are the calls with a whole path, in which the kernel follows symbolic links of any user.
var byPath = map[string][]string{
	"os": {
		"Chmod", "Chown", "Chtimes", "CopyFS", "Create", "CreateTemp", "DirFS", "Lchown", "Link", "Lstat", "Mkdir",
		"MkdirAll", "MkdirTemp", "Open", "OpenFile", "OpenInRoot",
		"OpenRoot", "ReadDir", "ReadFile", "Readlink", "Remove", "RemoveAll", "Rename", "Stat", "Symlink", "Truncate",
		"WriteFile",
	},
	"path/filepath": {"EvalSymlinks", "Glob", "Walk", "WalkDir"},
	"golang.org/x/sys/unix": {
		"Access", "Chmod", "Chown", "Chroot", "Creat", "Getxattr", "InotifyAddWatch", "Lchown", "Lgetxattr", "Link",
		"Listxattr", "Llistxattr", "Lremovexattr", "Lsetxattr", "Lstat", "Mkdir",
		"Mknod", "Mount", "Open", "Readlink", "Removexattr", "Rename", "Rmdir", "Setxattr", "Stat", "Statfs", "Symlink",
		"Truncate", "Unlink",
	},
}

// hostPathsAreOpenedInOnePlace reports opened paths of the host outside of one package. The daemon is root, and users
// of its machine can put links into a path; that package checks them. Other code uses a directory descriptor from that
// package. Files of /proc are exempt, because only the kernel creates them.
func hostPathsAreOpenedInOnePlace(r Repo) []Violation {
	var vs []Violation
	for _, p := range r.inRoot() {
		if side(p.Dir) != "mcd" || p.Dir == "mcd/linux/beneath" || roomKind(p.Dir) == Test {
			continue
		}
		for _, f := range p.production() {
			for library, calls := range byPath {
				f.eachCall(library, func(sel *ast.SelectorExpr) {
					if slices.Contains(calls, sel.Sel.Name) && !ofProc(f.Syntax, sel) {
						vs = append(vs, Violation{
							"host-path", f.Path, f.where(sel),
							fmt.Sprintf("%s.%s follows the links of whoever put them on the way: open the directory "+
								"with mcd/linux/beneath, and use a call that takes its descriptor", sel.X,
								sel.Sel.Name),
						})
					}
				})
			}
		}
	}
	return vs
}

func roomKind(dir string) Kind {
	room, _ := roomOf(Rooms, dir)
	return room.Kind
}

// ofProc reports whether a call is about a literal path below /proc.
func ofProc(f *ast.File, sel *ast.SelectorExpr) (is bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && call.Fun == sel && len(call.Args) > 0 {
			lit, ok := call.Args[0].(*ast.BasicLit)
			is = ok && strings.HasPrefix(lit.Value, `"/proc/`)
		}
		return !is
	})
	return is
}
