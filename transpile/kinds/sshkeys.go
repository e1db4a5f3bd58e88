package kinds

import (
	"fmt"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/transpile/origin"
)

// SSHKeys is a document with the keys of one user, or of several users.
type SSHKeys struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// Spec lists the users and their keys.
	Spec SSHKeysSpec `json:"spec"`
}

// SSHKeysSpec is the content of the document.
type SSHKeysSpec struct {
	// User is the owner of Keys; empty is core.
	User string `json:"user,omitempty"`
	// Keys are lines as in authorized_keys.
	Keys []string `json:"keys,omitempty"`
	// Users are more users with their keys.
	Users []SSHUser `json:"users,omitempty"`
}

// SSHUser is one user with keys.
type SSHUser struct {
	// Name is the name of the user.
	Name string `json:"name"`
	// Keys are lines as in authorized_keys.
	Keys []string `json:"keys"`
}

// defaultUser is the user that every operating system with Ignition has.
const defaultUser = "core"

// TranslateSSHKeys reads a document. If a finding is fatal, the output is the zero value.
func TranslateSSHKeys(in ObjectInput) (ObjectOutput, []origin.Finding) {
	t, ok := BeginObject(in)
	var doc SSHKeys
	if ok && t.Decode("SSHKeys", &doc) {
		addUsers(t, doc.Spec)
	}
	return t.End()
}

// addUsers adds the users of a document.
func addUsers(t *ObjectTranslation, spec SSHKeysSpec) {
	switch {
	case spec.User == "" && len(spec.Keys)+len(spec.Users) == 0:
		t.Errorf("$.spec", "document", "the document names no keys: list them under spec.keys, or spec.users with "+
			"the keys of each")
	case spec.User != "" || len(spec.Keys) > 0:
		name := spec.User
		if name == "" {
			name = defaultUser
		}
		addUser(t, SSHUser{name, spec.Keys}, "$.spec", "$.spec.user")
	}
	for i, u := range spec.Users {
		at := fmt.Sprintf("$.spec.users.%d", i)
		addUser(t, u, at, at+".name")
	}
}

// addUser adds one user, who is at a path of the document. The parameter name is the path of the user's name.
func addUser(t *ObjectTranslation, u SSHUser, at, name string) {
	users := &t.Config.Passwd.Users
	switch {
	case u.Name == "":
		t.Errorf(at, "name", "the user has no name")
		return
	case len(u.Keys) == 0:
		t.Errorf(name, "document", "the user %q has no keys: list them, or remove the user", u.Name)
		return
	case slices.ContainsFunc(*users, func(v ign.PasswdUser) bool { return v.Name == u.Name }):
		t.Errorf(name, "duplicate-key", "the user %q occurs twice; list all keys in one place", u.Name)
		return
	}
	out := ign.PasswdUser{Name: u.Name}
	to := fmt.Sprintf("$.passwd.users.%d", len(*users))
	t.SetOrigin(to, name)
	t.SetOrigin(to+".name", name)
	for i, k := range u.Keys {
		k = strings.TrimSpace(k)
		from := fmt.Sprintf("%s.keys.%d", at, i)
		if bad := SSHKeyProblem(k); bad != "" {
			t.Errorf(from, "ssh-key", "%s", bad)
			continue
		}
		if slices.Contains(out.SSHAuthorizedKeys, ign.SSHAuthorizedKey(k)) {
			t.Errorf(from, "duplicate-key", "the key occurs twice; keep one")
			continue
		}
		t.SetOrigin(fmt.Sprintf("%s.sshAuthorizedKeys.%d", to, len(out.SSHAuthorizedKeys)), from)
		out.SSHAuthorizedKeys = append(out.SSHAuthorizedKeys, ign.SSHAuthorizedKey(k))
	}
	*users = append(*users, out)
}
