package inspect_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// commandForms are the commands that `bunsen why` may print, as the tools take them. Those of the last group are for a
// person.
var commandForms = []string{
	`bunsen why (pool|node|gitsource)/[a-z0-9-]+`,
	`bunsen retry (pool|node)/[a-z0-9-]+`,
	`bunsen resume pool/[a-z0-9-]+( --open-for 2h)?`,
	`bunsen resume gitsource/[a-z0-9-]+`,
	`bunsen pause pool/[a-z0-9-]+ --because TEXT`,
	`bunsen init --help`,
	`bunsen drift (show|adopt) node/[a-z0-9-]+ \S+`,
	`bunsen drift [a-z0-9-]+`,
	`bunsen get (nodes|sources|pools)`,
	`git revert --no-edit [0-9a-f]{8}\.\.[0-9a-f]{8} && git push`,
	`git log --oneline [0-9a-f]{8}\.\.[0-9a-f]{8}`,
	`kubectl annotate gitsource [a-z0-9-]+ bunsen\.dev/reconcile="\$\(date \+%s\)" --overwrite`,
	`kubectl annotate gitsource [a-z0-9-]+ bunsen\.dev/accept-commit=[0-9a-f]{40} --overwrite`,
	`git restore --source=[0-9a-f]{8} -- pools/[a-z0-9-]+`,
	`kubectl (describe|uncordon|delete) node [a-z0-9-]+`,
	`kubectl uncordon [a-z0-9-]+`,
	`kubectl get node [a-z0-9-]+ --show-labels`,
	`kubectl label node [a-z0-9-]+ [a-z0-9./-]+(=\S*|-)`,
	`kubectl annotate node [a-z0-9-]+ --overwrite [a-zA-Z./]+=rendered-[a-z0-9-]+`,
	`kubectl delete mcp [a-z0-9-]+`,
	`kubectl (delete|edit) mc [a-z0-9.-]+`,
	`kubectl describe (mcp|gitsource) [a-z0-9-]+`,
	`kubectl describe csr [a-z0-9.-]+`,
	`kubectl edit (gitsource|rolloutpolicy) [a-z0-9-]+`,
	`kubectl patch (mcp|gitsource) [a-z0-9-]+ --type[ =]merge -p '\{.*\}'`,
	`kubectl -n [a-z0-9-]+ (describe|edit) (pdb|pod|daemonset) [a-z0-9-]+`,
	`kubectl -n [a-z0-9-]+ get jobs,pods -l bunsen\.dev/gate=[a-z0-9-]+`,
	`kubectl -n bunsen-system get pods,leases`,
	`kubectl -n bunsen-system rollout restart deployment machine-config-controller`,
	`systemctl restart machine-config-controller`,
	`kill -9 [0-9]+`,
	`kubectl -n [a-z0-9-]+ delete pod [a-z0-9-]+`,
	`kubectl -n bunsen-system delete lease machine-config-controller`,
	`kubectl get leases -A`,
	`bunsen release pool/[a-z0-9-]+`,
	`kubectl -n bunsen-secrets create (secret generic|configmap) [a-z0-9.-]+ --from-file=[A-Za-z0-9._-]+=FILE`,
	`kubectl -n bunsen-secrets edit (secret|configmap) [a-z0-9.-]+`,
	`kubectl -n bunsen-secrets get secrets,configmaps`,
	`kubectl -n bunsen-system create secret generic bunsen-age --from-file=FILE`,
	`bunsen explain \S+ --pool [a-z0-9-]+`,
	`bunsen validate`,
	`kubectl get mcp -o custom-columns=\S+`,
	`kubectl delete machineconfigs -l 'bunsen\.dev/source=[a-z0-9-]+'`,
	`kubectl get machineconfigs -l '[a-z0-9./-]+=[a-z0-9-]+(,!bunsen\.dev/source)?'`,
	`kubectl label machineconfigs -l '[a-z0-9./-]+=[a-z0-9-]+,bunsen\.dev/source' bunsen\.dev/source-`,
	`kubectl get pods -A -o wide --field-selector spec\.nodeName=[a-z0-9-]+`,
	`kubectl get events -A --field-selector reason=RenderedConfigLost`,
	`echo '\{.*"kind":"GitSource".*\}' \| kubectl apply -f -`,
	`curl -fsG \S+/api/v1/query --data-urlencode 'query=.*'`,
	`journalctl -u (machine-config-daemon|kubelet)`,
	`systemctl restart kubelet`,
	`touch /run/machine-config-daemon-force`,

	`push a document for pool [a-z0-9-]+ with the server's authority in ignition\.security\.tls\.certificate_authorities`,
	`(push|free|change|remove|start|restart|correct) .*`,
}

// TestEveryCommandHasAKnownForm: what the golden answers print under `To do` can be typed as it is printed.
func TestEveryCommandHasAKnownForm(t *testing.T) {
	known := regexp.MustCompile(`^(or, when [^:]+: )?(` + strings.Join(commandForms, "|") + `)(   # .*)?$`)
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no screens in testdata: %v", err)
	}
	commands := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inside := false
		for line := range strings.Lines(string(text)) {
			command, first := strings.CutPrefix(strings.TrimRight(line, "\n"), "To do:     ")
			more, goesOn := strings.CutPrefix(command, strings.Repeat(" ", 11))
			if inside = first || inside && goesOn; !inside {
				continue
			}
			commands++
			if !first {
				command = more
			}
			if !known.MatchString(command) {
				t.Errorf("%s: %q has no known form", file, command)
			}
			_, text, _ := fleet.CommandParts(command)
			if advice := strings.Fields("push free change remove start restart correct"); fleet.IsTyped(text) ==
				slices.Contains(advice, strings.Fields(text)[0]) {
				t.Errorf("%s: whether %q can be typed is not known", file, text)
			}
		}
	}
	if commands < 50 {
		t.Errorf("only %d commands were found", commands)
	}
}
