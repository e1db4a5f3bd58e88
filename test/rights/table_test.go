package rights

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// identity is who sends the requests of a table.
type identity struct {
	user   string
	groups []string
	// roles are the ClusterRoles and Roles of config/rbac that people are bound to; empty: those that config/rbac binds
	// to the identity itself.
	roles []string
}

// authenticated is the group of everyone but anonymous.
const authenticated = "system:authenticated"

func account(name string) identity {
	return identity{
		user:   "system:serviceaccount:bunsen-system:" + name,
		groups: []string{"system:serviceaccounts", "system:serviceaccounts:bunsen-system", authenticated},
	}
}

func person(name string, roles ...string) identity {
	return identity{user: name, groups: []string{authenticated}, roles: roles}
}

// identities by the name of their table.
var identities = map[string]identity{
	"controller":    account("machine-config-controller"),
	"notifier":      account("machine-config-notifier"),
	"server":        account("machine-config-server"),
	"daemon":        {user: "system:node:worker-0", groups: []string{"system:nodes", authenticated}},
	"new-machine":   {user: "system:bootstrap:abc123", groups: []string{"system:bootstrappers", "system:bootstrappers:bunsen", authenticated}},
	"viewer":        person("viewer", "bunsen-viewer"),
	"config-viewer": person("config-viewer", "bunsen-config-viewer"),
	"provisioner":   person("provisioner", "bunsen-provisioner"),
	"operator":      person("operator", "bunsen-operator"),
	"anonymous":     {user: "system:anonymous", groups: []string{"system:unauthenticated"}},
}

// requesters are whose the certificate requests of testdata/requests are, by the name of the file.
var requesters = map[string]identity{
	"new-machine":     identities["new-machine"],
	"kubeadm-machine": {user: "system:bootstrap:def456", groups: []string{"system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"}},
	"node":            identities["daemon"],
	"person":          person("ada"),
}

// fewest is how many requests of a thief a table must forbid.
const fewest = 60

// row is one request and what the API server must say.
type row struct {
	line    int
	allowed bool
	verb    string
	// group, resource and subresource, or a path that begins with a slash.
	group, resource, sub, path string
	namespace, name            string
	// selected reports whether a list or a watch selects the one object of the name.
	selected bool
	// body is the name of a file of the table, and says is part of the refusal.
	body, says string
}

func (r row) String() string {
	target := r.resource
	if r.group != "" {
		target += "." + r.group
	}
	if r.sub != "" {
		target += "/" + r.sub
	}
	return fmt.Sprintf("line %d: %s %s%s %s/%s %s", r.line, r.verb, r.path, target, r.namespace, r.name, r.body)
}

// table is the requests of one identity.
type table struct {
	rows   []row
	bodies map[string][]byte
}

// readTable reads the table of an identity, and what everyone is forbidden.
func readTable(t *testing.T, who string) table {
	t.Helper()
	out, all := readFile(t, who), readFile(t, "everyone")
	out.rows = append(out.rows, all.rows...)
	maps.Copy(out.bodies, all.bodies)
	return out
}

// readFile reads a table: one request a line, as the head of controller.txtar explains.
func readFile(t *testing.T, who string) table {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", who+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(raw)
	out := table{bodies: map[string][]byte{}}
	for _, f := range archive.Files {
		out.bodies[f.Name] = f.Data
	}
	for i, line := range strings.Split(string(archive.Comment), "\n") {
		line, _, _ = strings.Cut(line, "#")
		line, says, _ := strings.Cut(line, " says ")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 4 || len(fields) > 5 || fields[0] != "allowed" && fields[0] != "forbidden" {
			t.Fatalf("%s, line %d: want `allowed|forbidden VERBS RESOURCE NAMESPACE/NAME [FILE] [says TEXT]`: %q", who,
				i+1, line)
		}
		for _, verb := range strings.Split(fields[1], ",") {
			r := row{line: i + 1, allowed: fields[0] == "allowed", verb: verb, says: strings.TrimSpace(says)}
			r.target(fields[2], fields[3])
			if len(fields) == 5 {
				r.body = fields[4]
				if out.bodies[r.body] == nil {
					t.Fatalf("%s, line %d: the table has no file %q", who, i+1, r.body)
				}
			}
			out.rows = append(out.rows, r)
		}
	}
	return out
}

// target reads `pods.GROUP/eviction` and `NAMESPACE/NAME`; a dash is no name. A list or watch of `NAMESPACE/=NAME`
// selects one object.
func (r *row) target(what, at string) {
	if strings.HasPrefix(what, "/") {
		r.path = what
		return
	}
	what, r.sub, _ = strings.Cut(what, "/")
	r.resource, r.group, _ = strings.Cut(what, ".")
	namespace, name, namespaced := strings.Cut(at, "/")
	if !namespaced || r.resource == "signers" { // a signer's name has a slash
		namespace, name = "", at
	}
	if name == "-" {
		name = ""
	}
	r.namespace = namespace
	r.name, r.selected = strings.CutPrefix(name, "=")
}

// covers tells whether the row exercises a right. An apply patch of an object that does not exist needs the right to
// create it, too.
func (r row) covers(p right) bool {
	resource := r.resource
	if r.sub != "" {
		resource += "/" + r.sub
	}
	verb := r.verb == p.verb || r.verb == "apply" && (p.verb == "patch" || p.verb == "create")
	return r.allowed && verb && r.group == p.group && resource == p.resource &&
		(p.namespace == "" || p.namespace == r.namespace) && (p.name == "" || p.name == r.name)
}
