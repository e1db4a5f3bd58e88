package trust

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Object is a ConfigMap with certificates, or a Secret with the pull secret.
type Object struct {
	// Name is NAMESPACE/NAME for a ConfigMap and "Secret NAMESPACE/NAME" for a Secret.
	Name string
	// Secret is true for a Secret. Version identifies its contents without a digest of them.
	Secret  bool
	Version string
	// Kind is the value of v1alpha1.TrustLabel.
	Kind string
	// Pools is the value of v1alpha1.TrustPoolsAnnotation.
	Pools string
	// Created is the creation time. Of two objects with one path, the older one decides.
	Created time.Time
	// Data are the values by key.
	Data map[string]string
}

// Content is the last valid content of an object.
type Content struct {
	// Pools are the pools that get the files; nil means all.
	Pools []string `json:"pools,omitempty"`
	// Files are the files in the order of their paths.
	Files []v1alpha1.TrustFile `json:"files,omitempty"`
	// Unknown means that the object has had no valid content that the server knows.
	Unknown bool `json:"unknown,omitempty"`
}

// State has the content in force of each object, by name.
type State map[string]Content

// Next returns the content in force after objects were read. The content of a valid object is its own. An invalid
// object changes nothing: its content before stays in force. Objects that are gone have no content. The problems say
// what is wrong with each invalid object, and how to fix it; they contain no value.
func Next(have State, objects []Object, now time.Time) (State, []error) {
	objects = slices.SortedFunc(slices.Values(objects), func(a, b Object) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Name, b.Name))
	})
	next, problems, owners := State{}, []error(nil), map[string][]Object{}
	for _, o := range objects {
		content, err := read(o, now)
		if err == nil {
			err = checkOwner(owners, o, content)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("reading %s: %w", o.kindAndName(), err))
			before, known := have[o.Name]
			if content = before; !known {
				content = Content{Unknown: true}
			}
		}
		next[o.Name] = content
		for _, f := range content.Files {
			owners[f.Path] = append(owners[f.Path], Object{
				Name: o.Name, Secret: o.Secret,
				Pools: strings.Join(content.Pools, ","),
			})
		}
	}
	return next, problems
}

// kindAndName names an object in messages.
func (o Object) kindAndName() string {
	if o.Secret {
		return o.Name
	}
	return "ConfigMap " + o.Name
}

// WithoutSecrets returns the state for a file on disk. Objects with secret contents are unknown there, so that nodes
// keep their files.
func (s State) WithoutSecrets() State {
	out := State{}
	for name, c := range s {
		if slices.ContainsFunc(c.Files, func(f v1alpha1.TrustFile) bool { return f.Secret }) {
			c.Files, c.Unknown = nil, true
		}
		out[name] = c
	}
	return out
}

// Retain adds the content before of the objects that could not be read. prefixes begin the names of these objects.
// Nodes keep the files of those that the server does not know.
func (s State) Retain(have State, prefixes []string) {
	for _, prefix := range prefixes {
		s[prefix+"*"] = Content{Unknown: true}
		for name, c := range have {
			if strings.HasPrefix(name, prefix) {
				s[name] = c
			}
		}
	}
}

// checkOwner returns an error if an older object has a file of the same path for one of the same pools.
func checkOwner(owners map[string][]Object, o Object, c Content) error {
	for _, f := range c.Files {
		for _, older := range owners[f.Path] {
			pools, _ := poolsOf(older.Pools)
			if pools == nil || c.Pools == nil || slices.ContainsFunc(pools, func(p string) bool {
				return slices.Contains(c.Pools, p)
			}) {
				return fmt.Errorf("the older %s has %s for the same pools: add the contents to that object, or list "+
					"other pools in %s", older.kindAndName(), f.Path, v1alpha1.TrustPoolsAnnotation)
			}
		}
	}
	return nil
}

// For returns what a node in these pools trusts. Of two objects with one path, the one with the first name decides;
// Next allows this only for different pools of one node.
func (s State) For(pools []string) v1alpha1.NodeTrust {
	out := v1alpha1.NodeTrust{Files: []v1alpha1.TrustFile{}}
	seen := map[string]bool{}
	for _, pool := range append(slices.Clone(pools), "") {
		names := make([]string, 0, len(s))
		for name, c := range s {
			if pool == "" && c.Pools == nil || pool != "" && slices.Contains(c.Pools, pool) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if s[name].Unknown {
				out.Keep = append(out.Keep, name)
			}
			for _, f := range s[name].Files {
				if !seen[f.Path] {
					out.Files = append(out.Files, f)
				}
				seen[f.Path] = true
			}
		}
	}
	slices.SortFunc(out.Files, func(a, b v1alpha1.TrustFile) int { return strings.Compare(a.Path, b.Path) })
	out.Revision = revision(out)
	return out
}

// Expiring returns a line for each file with a certificate that expires within 30 days, in the order of the paths and
// objects. A line names the object, the path and the time.
func (s State) Expiring(now time.Time) []string {
	var lines []string
	for name, c := range s {
		for _, f := range c.Files {
			if !f.Expires.IsZero() && f.Expires.Before(now.Add(v1alpha1.TrustExpiresSoon)) {
				lines = append(lines, fmt.Sprintf("%s: a certificate of ConfigMap %s expires at %s: add the one that "+
					"replaces it", f.Path, name, f.Expires.Format(time.RFC3339)))
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// revision returns the digest of the files and the objects to keep. Certificates are public, so a plain digest reveals
// nothing. Of a secret it has the version of the object only, because a node reports the revision.
func revision(t v1alpha1.NodeTrust) string {
	h := sha256.New()
	for _, f := range t.Files {
		contents := f.Contents
		if f.Secret {
			contents = f.Version
		}
		text, _ := json.Marshal([]any{f.Path, f.Mode, contents, f.From}) //nolint:errchkjson // strings and a number
		h.Write(append(text, '\n'))
	}
	text, _ := json.Marshal(t.Keep) //nolint:errchkjson // strings
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}
