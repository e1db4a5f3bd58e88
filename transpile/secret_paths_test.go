package transpile_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/transpile"
)

// fragmentsOf transpiles documents of pool worker.
func fragmentsOf(files map[string]string) transpile.Result {
	tree := fstest.MapFS{}
	for name, text := range files {
		tree["pools/worker/"+name] = &fstest.MapFile{Data: []byte(text)}
	}
	return transpile.Fragments(source.Tree{FS: tree})
}

const marksOfDocument = "metadata:\n  name: 10-worker-a\n  labels: {machineconfiguration.openshift.io/role: worker}\n" +
	"  annotations:\n    review.bunsen.dev/secret-paths: "

// TestMarksOfDocumentsReachTheFragment checks the kinds of documents that have metadata. The content of the fragment,
// which names the rendered config, does not depend on the mark.
func TestMarksOfDocumentsReachTheFragment(t *testing.T) {
	for kind, rest := range map[string]string{
		"machineconfiguration.openshift.io/v1 MachineConfig":          "spec: {kernelArguments: [quiet]}\n",
		"machineconfiguration.openshift.io/v1 KubeletConfig":          "spec: {logLevel: 3}\n",
		"machineconfiguration.openshift.io/v1 ContainerRuntimeConfig": "spec: {containerRuntimeConfig: {pidsLimit: 100}}\n",
		"kubelet.config.k8s.io/v1beta1 KubeletConfiguration":          "maxPods: 100\n",
		"bunsen.dev/v1alpha1 SSHKeys":                                 "spec: {keys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGmzc5CzPp8LQGKOCtZgwQwPLBPQq3ZVtQ8yPHtOr2bR a]}\n",
	} {
		version, name, _ := strings.Cut(kind, " ")
		head := "apiVersion: " + version + "\nkind: " + name + "\n"
		res := fragmentsOf(map[string]string{"a.yaml": head + marksOfDocument + "/etc/b, /etc/a/\n" + rest})
		if res.Report.Fatal() || len(res.Fragments) != 1 {
			t.Errorf("%s: %s", name, res.Report)
			continue
		}
		if got := res.Fragments[0].MachineConfig.Annotations[v1alpha1.SecretPathsAnnotation]; got != "/etc/a/,/etc/b" {
			t.Errorf("%s: the mark is %q", name, got)
		}
		if strings.Contains(res.Report.String(), "does not reach") {
			t.Errorf("%s: %s", name, res.Report)
		}
		bad := fragmentsOf(map[string]string{"a.yaml": head + marksOfDocument + "nowhere\n" + rest})
		if !strings.Contains(bad.Report.String(), "pools/worker/a.yaml:7:5: error: review.bunsen.dev/secret-paths: "+
			"pattern \"nowhere\" is neither") {
			t.Errorf("%s: %s", name, bad.Report)
		}
	}
}

func TestAMarkInADocumentWithoutMetadataIsReported(t *testing.T) {
	const where = " has no annotations. Set it on the MachineConfigPool in cluster/"
	butane := fragmentsOf(map[string]string{"10-a.bu": "variant: fcos\nversion: 1.5.0\n" +
		"# review.bunsen.dev/secret-paths: /etc/a\nstorage: {files: [{path: /etc/a}]}\n"})
	if text := butane.Report.String(); butane.Report.Fatal() ||
		!strings.Contains(text, "pools/worker/10-a.bu:3: warning: ") || !strings.Contains(text, "kind Butane"+where) {
		t.Error(text)
	}
	metadata := fragmentsOf(map[string]string{"10-a.bu": "variant: fcos\nversion: 1.5.0\nmetadata:\n" +
		"  annotations: {review.bunsen.dev/secret-paths: /etc/a}\n"})
	if text := metadata.Report.String(); !metadata.Report.Fatal() || !strings.Contains(text, where) {
		t.Error(text)
	}
	ignition := fragmentsOf(map[string]string{"10-a.ign": "{\"ignition\": {\"version\": \"3.4.0\"}, \"storage\": " +
		"{\"files\": [{\"path\": \"/etc/a\", \"contents\": " +
		"{\"source\": \"data:,review.bunsen.dev/secret-paths\"}}]}}\n"})
	if text := ignition.Report.String(); !strings.Contains(text, "kind Ignition"+where) {
		t.Error(text)
	}
}
