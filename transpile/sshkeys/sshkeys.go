package sshkeys

import (
	"fmt"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/object"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// SSHKeys is the document: keys of one user, or of several.
type SSHKeys struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec is all that it says.
	Spec Spec `json:"spec"`
}

// Spec says whose keys they are.
type Spec struct {
	// User has the Keys; empty is core.
	User string `json:"user,omitempty"`
	// Keys are lines as in authorized_keys.
	Keys []string `json:"keys,omitempty"`
	// Users are more users with their keys.
	Users []User `json:"users,omitempty"`
}

// User is one user with keys.
type User struct {
	// Name of the user.
	Name string `json:"name"`
	// Keys are lines as in authorized_keys.
	Keys []string `json:"keys"`
}

// defaultUser is the one that Ignition's operating systems have.
const defaultUser = "core"

// Input is one document.
type Input struct {
	// Source is the document as YAML.
	Source []byte
	// Origin maps paths in the document to places in the repository.
	Origin origin.Map
}

// Output is one document as a config.
type Output struct {
	// Config holds the users.
	Config machineconfig.Config
	// Origin maps paths of the output to places in the repository.
	Origin origin.Map
}

// Translate reads a document. The output is the zero value where a finding is fatal.
func Translate(in Input) (Output, []origin.Finding) {
	t := &translator{in: in, out: Output{Origin: origin.Map{Files: in.Origin.Files, At: map[string]origin.Pos{}}}}
	raw, err := object.Read(in.Source)
	if err != nil || raw == nil {
		t.fatal("$", "yaml", "not an object: an object is a mapping that begins with apiVersion and kind")
		return Output{}, t.findings
	}
	var doc SSHKeys
	t.findings = object.Part{Object: raw, Path: "$", Places: in.Origin, What: "SSHKeys"}.Decode(&doc)
	if !origin.Fatal(t.findings) {
		t.users(doc.Spec)
	}
	if origin.Fatal(t.findings) {
		return Output{}, t.findings
	}
	if p, ok := in.Origin.Find("$"); ok {
		t.out.Origin.At["$"] = p
	}
	t.out.Config.HasIgnition = true
	t.out.Config.Ignition.Ignition.Version = machineconfig.Version
	return t.out, t.findings
}

type translator struct {
	in       Input
	out      Output
	findings []origin.Finding
}

func (t *translator) fatal(at, rule, format string, args ...any) {
	p, _ := t.in.Origin.Find(at)
	t.findings = append(t.findings, origin.Finding{Rule: rule, Message: fmt.Sprintf(format, args...), At: p})
}

func (t *translator) users(spec Spec) {
	switch {
	case spec.User == "" && len(spec.Keys)+len(spec.Users) == 0:
		t.fatal("$.spec", "document", "the document names no keys: list them under spec.keys, or spec.users with the keys of each")
	case spec.User != "" || len(spec.Keys) > 0:
		name := spec.User
		if name == "" {
			name = defaultUser
		}
		t.user(User{name, spec.Keys}, "$.spec", "$.spec.user")
	}
	for i, u := range spec.Users {
		at := fmt.Sprintf("$.spec.users.%d", i)
		t.user(u, at, at+".name")
	}
}

func (t *translator) user(u User, at, name string) {
	users := &t.out.Config.Ignition.Passwd.Users
	switch {
	case u.Name == "":
		t.fatal(at, "name", "the user has no name")
		return
	case len(u.Keys) == 0:
		t.fatal(name, "document", "the user %q has no keys: list them, or remove the user", u.Name)
		return
	case slices.ContainsFunc(*users, func(v ign.PasswdUser) bool { return v.Name == u.Name }):
		t.fatal(name, "duplicate-key", "the user %q stands twice; list all keys in one place", u.Name)
		return
	}
	out := ign.PasswdUser{Name: u.Name}
	to := fmt.Sprintf("$.passwd.users.%d", len(*users))
	t.place(to, name)
	t.place(to+".name", name)
	for i, k := range u.Keys {
		k = strings.TrimSpace(k)
		from := fmt.Sprintf("%s.keys.%d", at, i)
		if bad := Problem(k); bad != "" {
			t.fatal(from, "ssh-key", "%s", bad)
			continue
		}
		if slices.Contains(out.SSHAuthorizedKeys, ign.SSHAuthorizedKey(k)) {
			t.fatal(from, "duplicate-key", "the key stands twice; keep one")
			continue
		}
		t.place(fmt.Sprintf("%s.sshAuthorizedKeys.%d", to, len(out.SSHAuthorizedKeys)), from)
		out.SSHAuthorizedKeys = append(out.SSHAuthorizedKeys, ign.SSHAuthorizedKey(k))
	}
	*users = append(*users, out)
}

func (t *translator) place(to, from string) {
	if p, ok := t.in.Origin.Find(from); ok {
		t.out.Origin.At[to] = p
	}
}
