package arch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Daemon is the binary whose dependencies are limited, because it runs as root on every node.
const Daemon = "cmd/machine-config-daemon"

// unlinked are the packages that the daemon must not link, also indirectly.
var unlinked = []struct{ Prefix, Because string }{
	{"sigs.k8s.io/kustomize", "overlays are built once, in the controller; a node gets the result"},
	{"github.com/go-git", "a node never speaks git: it is told a rendered config"},
	{"github.com/coreos/butane", "Butane is transpiled before a node hears of it"},
	{"github.com/coreos/ignition/v2/butane", "Butane is transpiled before a node hears of it; import config/v3_5, not the top-level config, which pulls it in"},
	{"github.com/bunsen-os/bunsen/mcd/simulate", "it is for cmd/simulated-host: no real node has a kubelet that is simulated"},
	{"sigs.k8s.io/controller-runtime/pkg/manager", "one watch on one Node needs no manager; pkg/client alone is fine"},
}

// FindLinks returns the packages that a binary links, from the go command.
func FindLinks(ctx context.Context, root, binary string) ([]Linked, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Module,Standard", "./"+binary)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("listing what %s links: %s", binary, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("listing what %s links: %w", binary, err)
	}
	return decodeLinks(strings.NewReader(string(out)))
}

// decodeLinks reads the go command's stream of JSON objects.
func decodeLinks(in io.Reader) ([]Linked, error) {
	var linked []Linked
	for dec := json.NewDecoder(in); ; {
		var p struct {
			ImportPath string
			Standard   bool
			Module     *struct{ Path string }
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the go command's list: %w", err)
		}
		l := Linked{Path: p.ImportPath}
		if !p.Standard && p.Module != nil {
			l.Module = p.Module.Path
		}
		linked = append(linked, l)
	}
	slices.SortFunc(linked, func(a, b Linked) int { return cmp.Compare(a.Path, b.Path) })
	return linked, nil
}

// Modules lists the modules of a binary's packages, without the project's own.
func Modules(project string, linked []Linked) []string {
	var mods []string
	for _, l := range linked {
		if l.Module != "" && l.Module != project {
			mods = append(mods, l.Module)
		}
	}
	slices.Sort(mods)
	return slices.Compact(mods)
}

// theDaemonStaysSmall reports packages that the daemon must not link, because it runs as root on every node.
func theDaemonStaysSmall(r Repo) []Violation {
	var vs []Violation
	add := func(subject, message string) {
		vs = append(vs, Violation{"links", Daemon + "->" + subject, Daemon, message})
	}
	linked := r.Links[Daemon]
	for _, l := range linked {
		if dir, ours := r.ours(l.Path); ours && otherProcess(dir) {
			add(l.Path, fmt.Sprintf("the daemon links %s of another process: share words through api and policy only",
				dir))
		}
	}
	for _, u := range unlinked {
		i := slices.IndexFunc(linked, func(l Linked) bool {
			return l.Path == u.Prefix || strings.HasPrefix(l.Path, u.Prefix+"/")
		})
		if i >= 0 {
			add(u.Prefix, fmt.Sprintf("the daemon links %s: %s. `go mod why %s` names the way in", linked[i].Path,
				u.Because, linked[i].Path))
		}
	}
	return vs
}

// otherProcess reports whether a room belongs to the controller or the server.
func otherProcess(dir string) bool {
	return coversAny([]string{"reconcile/...", "mcs/...", "transpile/...", "source/..."}, dir)
}
