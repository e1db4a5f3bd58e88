package transpile

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/transpile/kinds"
	"github.com/bunsen-os/bunsen/transpile/origin"
)

// signaturePolicy is a signature policy among the files of a pool's documents.
type signaturePolicy struct {
	text []byte
	at   origin.Pos
}

// signaturePolicies returns the signature policies of a pool's own documents by namespace; "" is the whole node.
func signaturePolicies(fragments []Fragment, pool string) map[string]signaturePolicy {
	out := map[string]signaturePolicy{}
	for _, f := range fragments {
		if f.Pool != pool || !bytes.Contains(f.MachineConfig.Spec.Config.Raw, []byte("polic")) {
			continue
		}
		config, err := machineconfig.Parse(f.MachineConfig.Spec)
		if err != nil {
			continue // The validation of the whole config reports this error.
		}
		for i, file := range config.Ignition.Storage.Files {
			namespace, ok := kinds.PolicyOf(file.Path)
			text, err := machineconfig.Contents(file.Contents)
			if !ok || err != nil {
				continue
			}
			at, _ := f.Origin.Find(fmt.Sprintf("$.storage.files.%d.path", i))
			out[namespace] = signaturePolicy{text, at}
		}
	}
	return out
}

// checkSignatures warns of a custom pool whose signature policies replace those of worker and require less. The nodes
// of the pool would run images that worker refuses.
func checkSignatures(worker, own map[string]signaturePolicy, pool string, found *origin.Findings) {
	for _, namespace := range slices.Sorted(maps.Keys(own)) {
		mine, inherited := own[namespace], worker[namespace]
		if lost := kinds.Weaker(mine.text, inherited.text); len(lost) > 0 {
			found.Warnf(mine.at, "signatures-weaker", "this policy%s replaces worker's at %s, which requires "+
				"signatures that this one does not require, for %s. Nodes of pool %s run these images unsigned: list "+
				"worker's document in this pool too", ofNamespace(namespace), inherited.at, strings.Join(lost, ", "),
				pool)
		}
	}
	node, ok := own[""]
	if !ok {
		return
	}
	for _, namespace := range slices.Sorted(maps.Keys(worker)) {
		inherited := worker[namespace]
		if _, replaced := own[namespace]; replaced {
			continue
		}
		if lost := kinds.Weaker(inherited.text, node.text); len(lost) > 0 {
			found.Warnf(node.at, "signatures-weaker", "pods of namespace %s use worker's policy at %s, which does "+
				"not require this policy's signatures for %s: list that document in pool %s too", namespace,
				inherited.at, strings.Join(lost, ", "), pool)
		}
	}
}

func ofNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " of namespace " + namespace
}
