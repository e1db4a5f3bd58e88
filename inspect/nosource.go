package inspect

import (
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// createSource is the command that creates again the GitSource from which the pools came, as the pools record it.
func createSource(f *fleet) string {
	name, spec, comment := "config", json.RawMessage(`{"url":"URL"}`), "   # write the repository's URL for URL: docs/sources.md"
	for i := range f.Pools {
		of, recorded := f.Pools[i].Annotations[v1alpha1.SourceAnnotation], f.Pools[i].Annotations[v1alpha1.SourceSpecAnnotation]
		if len(validation.IsDNS1123Subdomain(of)) > 0 { // none, or a text that must not stand in a command
			continue
		}
		if name = of; json.Valid([]byte(recorded)) {
			spec, comment = json.RawMessage(recorded), "   # creates GitSource "+name+" as it was"
			break
		}
	}
	manifest, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "GitSource", "metadata": map[string]any{"name": name}, "spec": spec,
	})
	if err != nil {
		return "" // it consists of texts, which always marshal
	}
	return "echo " + shellWord(string(manifest)) + " | kubectl apply -f -" + comment
}

// adoptOrCreateSource are the commands for a pool that waits because a GitSource was deleted, perhaps in the middle of a commit.
func adoptOrCreateSource(f *fleet, v *poolView) []string {
	return []string{createSource(f), "kubectl label machineconfigs -l '" + inputSelector(v) + "," + v1alpha1.SourceLabel + "' " + v1alpha1.SourceLabel +
		"-   # or use the MachineConfigs as they are"}
}

// fixWithoutSource are the commands for a pool whose config is at fault while no GitSource exists, so that pushes have no effect, and
// while no range of commits is known that takes the fault back. A GitSource that is created again replaces what users edited since.
func fixWithoutSource(f *fleet, v *poolView) []string {
	const correct = "   # pool %s is rendered from these; correct the one at fault with kubectl edit"
	if sourceOf(f, v, v.facts.Target) == "" {
		return []string{fmt.Sprintf("kubectl get machineconfigs -l '"+inputSelector(v)+"'"+correct, v.object.Name)}
	}
	return []string{
		"push a commit that fixes pool " + v.object.Name, createSource(f),
		alternative("pool "+v.object.Name+" is to do without git", "kubectl label machineconfigs -l '"+inputSelector(v)+","+v1alpha1.SourceLabel+"' "+v1alpha1.SourceLabel+
			"-   # then correct the MachineConfig at fault with kubectl edit"),
	}
}

// inputSelector is the label selector of the MachineConfigs that a pool is rendered from. Rendered configs do not match it.
func inputSelector(v *poolView) string {
	if s := v.object.Spec.MachineConfigSelector; s != nil {
		if text := metav1.FormatLabelSelector(s); !strings.HasPrefix(text, "<") {
			return text
		}
	}
	return v1alpha1.RoleLabel + "=" + v.object.Name
}
