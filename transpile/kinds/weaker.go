package kinds

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// PolicyOf reports whether a file is a signature policy, and returns its namespace; "" for the policy of the whole
// node.
func PolicyOf(path string) (namespace string, ok bool) {
	name, ok := strings.CutPrefix(path, namespaceDir)
	if !ok {
		return "", path == policyPath
	}
	return strings.CutSuffix(name, ".json")
}

// Weaker returns the scopes, in lexical order, for which a policy lacks a requirement that another one has. Weaker
// returns nil if one of the texts is no policy, because no runtime would use it.
func Weaker(policy, than []byte) []string {
	has, ok := requirements(policy)
	wants, valid := requirements(than)
	if !ok || !valid {
		return nil
	}
	lost := map[string]bool{}
	for key, list := range wants {
		for _, r := range list {
			if !slices.Contains(has[key], r) {
				lost[key.scope] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(lost))
}

// policyKey is one scope of one transport.
type policyKey struct{ transport, scope string }

// requirements returns the requirements of each scope of a policy as canonical JSON, without those that accept
// anything.
func requirements(text []byte) (map[policyKey][]string, bool) {
	var policy struct {
		Default    []any
		Transports map[string]map[string][]any
	}
	if json.Unmarshal(text, &policy) != nil {
		return nil, false
	}
	out := map[policyKey][]string{}
	add := func(key policyKey, list []any) {
		for _, r := range list {
			if m, ok := r.(map[string]any); ok && m["type"] == "insecureAcceptAnything" {
				continue
			}
			canonical, err := json.Marshal(r)
			if err != nil {
				continue // unreachable: the value comes from JSON
			}
			out[key] = append(out[key], string(canonical))
		}
	}
	add(policyKey{scope: "all other images"}, policy.Default)
	for transport, scopes := range policy.Transports {
		for scope, list := range scopes {
			if scope == "" {
				scope = "all images of " + transport
			}
			add(policyKey{transport, scope}, list)
		}
	}
	return out, true
}
