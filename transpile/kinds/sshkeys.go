package kinds

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/transpile/origin"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		t.addUsers(doc.Spec)
	}
	return t.End()
}

// addUsers adds the users of a document.
func (t *ObjectTranslation) addUsers(spec SSHKeysSpec) {
	switch {
	case spec.User == "" && len(spec.Keys)+len(spec.Users) == 0:
		t.Errorf("$.spec", "document", "the document names no keys: list them under spec.keys, or spec.users with "+
			"the keys of each")
	case spec.User != "" || len(spec.Keys) > 0:
		name := spec.User
		if name == "" {
			name = defaultUser
		}
		t.addUser(SSHUser{name, spec.Keys}, "$.spec", "$.spec.user")
	}
	for i, u := range spec.Users {
		at := fmt.Sprintf("$.spec.users.%d", i)
		t.addUser(u, at, at+".name")
	}
}

// addUser adds one user, who is at a path of the document. The parameter name is the path of the user's name.
func (t *ObjectTranslation) addUser(u SSHUser, at, name string) {
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

// types are the kinds of keys that sshd accepts. The list has no ssh-dss, which sshd refuses, and no certificate, which
// is not a key.
var types = []string{
	ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
	ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256,
}

// options are the options that a key in authorized_keys may have. sshd ignores a key with any other option.
var options = []string{
	"agent-forwarding", "cert-authority", "no-agent-forwarding", "no-port-forwarding", "no-pty", "no-touch-required",
	"no-user-rc",
	"no-x11-forwarding", "port-forwarding", "pty", "restrict", "user-rc", "verify-required", "x11-forwarding",
}

// valued are the options of authorized_keys that have a value in double quotes.
var valued = []string{
	"command", "environment", "expiry-time", "from", "permitlisten", "permitopen", "principals",
	"tunnel",
}

// SSHKeyProblem says what is wrong with a line of authorized_keys, or returns "". Problem never quotes the key.
func SSHKeyProblem(line string) string {
	switch {
	case strings.Contains(line, "PRIVATE KEY"):
		return "this is a private key, and every reader of the repository has it now. Create a new pair, and write " +
			"the line of the .pub file here"
	case line == "" || strings.HasPrefix(line, "#"):
		return "there is no key in this item: write one line of a .pub file"
	case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' }):
		return "an item is one key in one line; write each key as an item of its own"
	}
	if strings.Contains(line, "${") || strings.Contains(line, "{{") {
		return "this is a placeholder of a template, and nothing replaces it on a machine: write the line of a " +
			".pub file"
	}
	key, _, opts, rest, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil || len(rest) > 0 {
		return "not a public key: it is a line like `ssh-ed25519 AAAA… name`; check that it was copied as a whole"
	}
	if !slices.Contains(types, key.Type()) {
		return "keys of type " + key.Type() + " are not accepted by sshd; use ssh-ed25519 or ecdsa, or ssh-rsa"
	}
	for _, o := range opts {
		if problem := optionProblem(o); problem != "" {
			return problem
		}
	}
	return ""
}

// optionProblem says what is wrong with one option of a key, or returns "".
func optionProblem(option string) string {
	name, value, hasValue := strings.Cut(option, "=")
	name = strings.ToLower(name)
	switch {
	case slices.Contains(options, name) && hasValue:
		return "the option " + name + " has no value"
	case slices.Contains(options, name):
		return ""
	case !slices.Contains(valued, name):
		return "sshd has no option with this name, and would ignore the key: options are " +
			strings.Join(slices.Concat(options, valued), ", ")
	case len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"':
		return "the option " + name + " needs a value in double quotes, as in " + name + `="…"`
	}
	return ""
}
