package arch

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path"
	"strings"
)

// EscapingLinks lists the tracked symbolic links of a git repository that point out of its tree. After a checkout,
// every program that follows such a link accesses files of the user.
func EscapingLinks(ctx context.Context, dir string) (escaping []string, err error) {
	git := func(args ...string) ([]byte, error) {
		out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
		if err != nil {
			return nil, fmt.Errorf("running git %s in %s: %w", args[0], dir, err)
		}
		return out, nil
	}
	// --full-name and :/ list the whole repository, whatever the directory.
	out, err := git("ls-files", "-s", "-z", "--full-name", ":/")
	if err != nil {
		return nil, err
	}
	for entry := range bytes.SplitSeq(out, []byte{0}) {
		about, name, _ := strings.Cut(string(entry), "\t")
		fields := strings.Fields(about)
		if len(fields) != 3 || fields[0] != "120000" {
			continue
		}
		target, err := git("cat-file", "blob", fields[1])
		if err != nil {
			return nil, err
		}
		if leadsOut(name, string(target)) {
			escaping = append(escaping, fmt.Sprintf("%s -> %s", name, target))
		}
	}
	return escaping, nil
}

// leadsOut checks only the text of a link. The steps up must come first, because after another link's name a step up
// starts from that link's target. A path that leaves the repository and returns is refused, because it depends on the
// repository's location.
func leadsOut(name, target string) bool {
	if path.IsAbs(target) || strings.Contains(target, `\`) || strings.Contains(target, ":") {
		return true
	}
	depth, down := strings.Count(name, "/"), false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 || down {
				return true
			}
		default:
			down = true
		}
	}
	// git would write through a link into the repository's own directory .git.
	return strings.HasPrefix(path.Join(path.Dir(name), target)+"/", ".git/")
}
