package lineage_test

import (
	"encoding/json"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review/lineage"
	"github.com/bunsen-os/bunsen/reconcile/render"
)

// specs are two MachineConfigs, 10-a and 20-b, as JSON.
func specs(t *testing.T, a, b string) []*mcfgv1.MachineConfig {
	t.Helper()
	var out []*mcfgv1.MachineConfig
	for name, text := range map[string]string{"10-a": a, "20-b": b} {
		mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:   name,
			Labels: map[string]string{"machineconfiguration.openshift.io/role": "worker"},
		}}
		if err := json.Unmarshal([]byte(text), &mc.Spec); err != nil {
			t.Fatal(err)
		}
		out = append(out, mc)
	}
	return out
}

const (
	everything = `{"osImageURL":"a/os:1","baseOSExtensionsContainerImage":"a/ext:1","kernelType":"realtime","fips":true,"kernelArguments":["quiet"],"extensions":["usbguard"],
		"config":{"ignition":{"version":"3.5.0","proxy":{"httpProxy":"http://proxy"},"config":{"merge":[{"source":"data:,%7B%22ignition%22%3A%7B%22version%22%3A%223.5.0%22%7D%7D"}]}},
		"storage":{"disks":[{"device":"/dev/sdb","wipeTable":true}]},"kernelArguments":{"shouldExist":["first"]}}}`
	alittle = `{"config":{"ignition":{"version":"3.5.0","timeouts":{"httpTotal":9}}}}`
)

// TestAQuestionMayUseTheWordsOfTheAnswers asks with what answers begin with, and with the fields of a MachineConfig.
func TestAQuestionMayUseTheWordsOfTheAnswers(t *testing.T) {
	layers, err := lineage.LayersOf(specs(t, everything, alittle), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := lineage.New(layers, lineage.Options{})
	for question, want := range map[string]string{
		"kernel type": "kernel-type", "kernelType": "kernel-type", "Kernel type": "kernel-type",
		"kernel-type": "kernel-type", "kernel": "kernel-type",
		"FIPS mode": "fips", "fips": "fips",
		"OS image": "os-image", "os image": "os-image", "osImageURL": "os-image", "image": "os-image",
		"image of extensions": "extensions-image", "baseOSExtensionsContainerImage": "extensions-image",
		"kernel argument quiet": "kargs quiet", "kernel arguments": "kargs", "kernelArguments": "kargs",
		"extension usbguard": "extensions usbguard", "extensions": "extensions",
		"storage device /dev/sdb": "storage /dev/sdb", "kernel arguments of first boots": "first-boot-kargs",
		"ignition": "ignition", "ignition proxy": "ignition proxy", "config.merge": "ignition config.merge",
	} {
		items, err := l.Find(question)
		if err != nil || len(items) != 1 || strings.TrimSpace(string(items[0].Kind)+" "+items[0].Name) != want {
			t.Errorf("%q: got %v, %v, want %s", question, items, err, want)
		}
	}
	for _, item := range l.All() { // whatever it prints can be asked again
		title, _, _ := strings.Cut(lineage.Report{Items: []lineage.Item{item}}.Text(), "\n")
		items, err := l.Find(title)
		if err != nil || len(items) != 1 || items[0].Kind != item.Kind || items[0].Name != item.Name {
			t.Errorf("%q, which begins an answer, gives %v, %v", title, items, err)
		}
	}
}

func winner(i lineage.Item) string {
	if len(i.Writers) == 0 {
		return ""
	}
	return i.Writers[len(i.Writers)-1].Layer
}

// TestTheWritersOfWhatIgnitionIsTold compares with who is the winner to the renderer.
func TestTheWritersOfWhatIgnitionIsTold(t *testing.T) {
	both := strings.Replace(alittle, `"timeouts"`, `"proxy":{"httpProxy":"http://other"},"timeouts"`, 1)
	mcs := specs(t, everything, both)
	rendered, err := render.Merge("worker", mcs, render.Defaults{})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"config.merge": "10-a", "proxy": "20-b", "timeouts": "20-b",
		"security.tls": "",
	} {
		l := lineage.New(lineage.LayersOfRendered(rendered, nil), lineage.Options{})
		item, err := l.Explain(disruption.KindIgnition, name)
		last, _ := l.Last(disruption.KindIgnition, name)
		if winner(item) != want || last.Layer != want || rendered.Winner(disruption.KindIgnition, name) != want ||
			(err == nil) != (want != "") {
			t.Errorf("%s is of %q and %q (%v), to the renderer of %q, want %q", name, winner(item), last.Layer, err,
				rendered.Winner(disruption.KindIgnition, name), want)
		}
	}
}

// TestTheDefaultKernelHasAWriter where somebody asks for it by its name and nobody for another.
func TestTheDefaultKernelHasAWriter(t *testing.T) {
	for _, c := range []struct{ sentence, a, b, want string }{
		{"nobody says a kernel", `{}`, `{}`, ""},
		{"one says default", `{"kernelType":"default"}`, `{}`, "10-a"},
		{"both do, and the last counts", `{"kernelType":"default"}`, `{"kernelType":"default"}`, "20-b"},
		{"default is weaker than another, whatever the order", `{"kernelType":"realtime"}`, `{"kernelType":"default"}`, "10-a"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			rendered, err := render.Merge("worker", specs(t, c.a, c.b), render.Defaults{})
			if err != nil {
				t.Fatal(err)
			}
			item, _ := lineage.New(lineage.LayersOfRendered(rendered, nil), lineage.Options{}).
				Explain(disruption.KindKernelType, "")
			if winner(item) != c.want || rendered.Winner(disruption.KindKernelType, "") != c.want {
				t.Errorf("it is of %q, to the renderer of %q, want %q", winner(item),
					rendered.Winner(disruption.KindKernelType, ""), c.want)
			}
		})
	}
}
