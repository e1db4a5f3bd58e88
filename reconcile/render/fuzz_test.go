package render

import (
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FuzzMerge renders three inline configs and their kernel arguments. Whatever they hold, rendering returns; what it
// takes is what validating the whole gives, whatever the order, and rendering the result again gives the same name.
func FuzzMerge(f *testing.F) {
	const head = `{"ignition":{"version":"3.5.0"},`
	f.Add([]byte(head+`"storage":{"files":[{"path":"/a","contents":{"source":"data:,x"}}]}}`),
		[]byte(head+`"storage":{"links":[{"path":"/a","target":"/b"}]}}`),
		[]byte(head+`"storage":{"files":[{"path":"/a/c"}]}}`), "a=1")
	f.Add([]byte(head+
		`"systemd":{"units":[{"name":"a.service","dropins":[{"name":"a.conf","contents":"[Unit]\u2028"}]}]}}`),
		[]byte(head+`"systemd":{"units":[{"name":"a.service","mask":true}]}}`), []byte(``), "console=a a=2")
	f.Add([]byte(`{"ignition":{"version":"3.0.0"},"passwd":{"users":[{"name":"core","passwordHash":"x"}]}}`),
		[]byte(head+
			`"passwd":{"users":[{"name":"core","sshAuthorizedKeys":["items-of-users"]}],"groups":[{"name":"items-of-groups"}]}}`), []byte(`null`), "")
	f.Add([]byte(head+`"storage":{"disks":[{"device":"/dev/a"}],"files":[]}}`),
		[]byte(head+`"kernelArguments":{"shouldExist":["a"]},"storage":{"luks":[{"name":"a","device":"/dev/a"}]}}`),
		[]byte(head+`"storage":{"directories":[{"path":"data:,stand-in-0000000000"}]}}`), "\u0085")
	for _, c := range corpus(f) {
		m := c.MachineConfigs
		f.Add(m[0].Spec.Config.Raw, m[1].Spec.Config.Raw, m[2].Spec.Config.Raw, strings.Join(m[0].Spec.KernelArguments,
			" "))
	}
	f.Fuzz(func(t *testing.T, a, b, c []byte, kargs string) {
		var mcs []*mcfgv1.MachineConfig
		for i, raw := range [][]byte{a, b, c} {
			mc := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
				Name:   fmt.Sprint(i),
				Labels: map[string]string{RoleLabel: []string{"infra", "worker", "worker"}[i]},
			}}
			mc.Spec.Config = runtime.RawExtension{Raw: raw}
			mcs = append(mcs, mc)
		}
		mcs[1].Spec.KernelArguments = strings.SplitAfter(kargs, " ")
		first, err := Merge("infra", mcs, Defaults{})
		whole, wholeErr := wholly("infra", mcs, Defaults{})
		if (err == nil) != (wholeErr == nil) {
			t.Fatalf("%v, validated wholly %v", err, wholeErr)
		}
		if err != nil {
			return
		}
		if first.Name != whole.Name || string(first.Spec.Config.Raw) != string(whole.Spec.Config.Raw) {
			t.Fatalf("%s\n%s\nvalidated wholly %s\n%s", first.Name, first.Spec.Config.Raw, whole.Name,
				whole.Spec.Config.Raw)
		}
		again, err := Merge("infra", []*mcfgv1.MachineConfig{mcs[2], mcs[1], mcs[0]}, Defaults{})
		if err != nil || again.Name != first.Name {
			t.Fatalf("in another order %s, %v", again.Name, err)
		}
		self := &mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{
			Name:   "9",
			Labels: map[string]string{RoleLabel: "infra"},
		}, Spec: first.Spec}
		if again, err = Merge("infra", []*mcfgv1.MachineConfig{self}, Defaults{}); err != nil ||
			again.Name != first.Name {
			t.Fatalf("rendered again, %s became %s: %v", first.Name, again.Name, err)
		}
		for _, n := range first.Notices {
			if n.Rule == "" || n.Message == "" || len(n.Inputs) < 2 {
				t.Fatalf("a notice says nothing: %+v", n)
			}
		}
	})
}
