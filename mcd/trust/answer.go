package trust

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// validObject matches the name of an object. validRevision matches a revision.
var (
	validObject   = regexp.MustCompile(`^(Secret )?[a-z0-9-]{1,63}/([a-z0-9.-]{1,253}|\*)$`)
	validRevision = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// Check returns an error if a node must not use an answer of the server. The error contains no contents.
func Check(t v1alpha1.NodeTrust) error {
	if !validRevision.MatchString(t.Revision) {
		return fmt.Errorf("reading what the server sends beside the config: its revision is not a SHA-256")
	}
	if len(t.Files) > trustfile.MaxFiles || len(t.Keep) > trustfile.MaxFiles {
		return fmt.Errorf("reading what the server sends beside the config: it has more than %d files",
			trustfile.MaxFiles)
	}
	seen, total := map[string]bool{}, 0
	for _, f := range t.Files {
		err := trustfile.Check(f)
		switch total += len(f.Contents); {
		case err != nil:
		case seen[f.Path]:
			err = fmt.Errorf("%s: it is in the answer twice", f.Path)
		case total > trustfile.MaxTotalBytes:
			err = fmt.Errorf("all files together are larger than %d MiB", trustfile.MaxTotalBytes>>20)
		case !validObject.MatchString(f.From):
			err = fmt.Errorf("%s: %q is not the name of an object", f.Path, f.From)
		}
		if err != nil {
			return fmt.Errorf("reading what the server sends beside the config: %w", err)
		}
		seen[f.Path] = true
	}
	for _, name := range t.Keep {
		if !validObject.MatchString(name) {
			return fmt.Errorf("reading what the server sends beside the config: %q is not the name of an object", name)
		}
	}
	return nil
}

// Merge returns an answer with the files before of the objects whose content the server does not know.
func Merge(before, answer v1alpha1.NodeTrust) v1alpha1.NodeTrust {
	has := map[string]bool{}
	for _, f := range answer.Files {
		has[f.Path] = true
	}
	files := slices.Clone(answer.Files)
	for _, f := range before.Files {
		if !has[f.Path] && slices.ContainsFunc(answer.Keep, func(name string) bool { return keeps(name, f.From) }) {
			files = append(files, f)
		}
	}
	slices.SortFunc(files, func(a, b v1alpha1.TrustFile) int { return strings.Compare(a.Path, b.Path) })
	answer.Files = files
	return answer
}

// keeps reports whether a name of NodeTrust.Keep stands for an object.
func keeps(name, object string) bool {
	namespace, all := strings.CutSuffix(name, "/*")
	return name == object || all && path.Dir(object) == namespace
}
