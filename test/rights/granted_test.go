package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// right is one verb on one resource that a role of config/rbac grants. Namespace and name are empty for all of them.
type right struct{ role, verb, group, resource, namespace, name string }

func (p right) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s: %s %s.%s %s/%s", p.role, p.verb, p.resource, p.group, p.namespace,
		p.name))
}

// role is a Role or a ClusterRole, and binding one of their bindings.
type role struct {
	Kind             string `json:"kind"`
	rbacv1.Role      `json:",inline"`
	RoleRef          rbacv1.RoleRef   `json:"roleRef"`
	Subjects         []rbacv1.Subject `json:"subjects"`
	AggregationRules any              `json:"aggregationRule"`
}

// readRoles reads all roles and bindings of config/rbac.
func readRoles(t *testing.T) []role {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "config", "rbac", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var out []role
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			var r role
			err := docs.Decode(&r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			out = append(out, r)
		}
	}
	return out
}

// rightsOf are the rights that config/rbac grants to an identity, one a verb.
func rightsOf(all []role, who identity) []right {
	var out []right
	for _, r := range all {
		if r.Kind != "Role" && r.Kind != "ClusterRole" {
			continue
		}
		if granted := slices.Contains(who.roles, r.Name) || slices.ContainsFunc(all, func(b role) bool {
			return b.binds(r, who)
		}); !granted {
			continue
		}
		for _, rule := range r.Rules {
			out = append(out, r.expand(rule)...)
		}
	}
	return out
}

// binds tells whether this is a binding of a role to an identity.
func (r role) binds(to role, who identity) bool {
	if r.RoleRef.Kind != to.Kind || r.RoleRef.Name != to.Name || r.Namespace != to.Namespace {
		return false
	}
	return slices.ContainsFunc(r.Subjects, func(s rbacv1.Subject) bool {
		if s.Kind == "ServiceAccount" {
			return who.user == "system:serviceaccount:"+s.Namespace+":"+s.Name
		}
		return s.Kind == "Group" && slices.Contains(who.groups, s.Name) || s.Kind == "User" && who.user == s.Name
	})
}

func (r role) expand(rule rbacv1.PolicyRule) []right {
	var out []right
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					out = append(out, right{r.Kind + " " + r.Name, verb, group, resource, r.Namespace, name})
				}
			}
		}
	}
	return out
}
