package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/reconcile/render"
)

// TestNotices is what is said about MachineConfigs that set one thing twice, a sentence each.
func TestNotices(t *testing.T) {
	unit := func(rest string) string { return `"systemd":{"units":[{"name":"a.service"` + rest + `}]}` }
	dropin := func(text string) string { return unit(`,"dropins":[{"name":"10.conf","contents":"` + text + `"}]`) }
	user := func(rest string) string { return `"passwd":{"users":[{"name":"core"` + rest + `}]}` }
	link := `"storage":{"links":[{"path":"/a","target":"/t"}]}`
	for sentence, c := range map[string]struct {
		bodies []string // of 10-a, 20-b, …, role worker; with a leading ! of the pool's own role
		want   string   // a notice a line, with its inputs
	}{
		"nothing twice":                              {[]string{plain("/a", "1"), plain("/b", "1")}, ""},
		"a file with other contents":                 {[]string{plain("/a", "1"), plain("/a", "2")}, "same-file: file /a: contents: 20-b wins over 10-a [10-a 20-b]"},
		"a file with the same contents":              {[]string{plain("/a", "x"), file("/a", `,"contents":{"source":"data:;base64,eA=="}`)}, ""},
		"a file whose mode another adds":             {[]string{plain("/a", "x"), file("/a", `,"mode":384`)}, ""},
		"contents of one, the mode of another":       {[]string{file("/a", `,"mode":420,"contents":{"source":"data:,1"}`), plain("/a", "2"), file("/a", `,"mode":384`)}, "same-file: file /a: contents: 20-b wins over 10-a; mode: 30-c wins over 10-a [10-a 20-b 30-c]"},
		"back to the first":                          {[]string{plain("/a", "1"), plain("/a", "2"), plain("/a", "1")}, "same-file: file /a: contents: 30-c wins over 20-b [10-a 20-b 30-c]"},
		"an owner by name and by number":             {[]string{file("/a", `,"user":{"name":"core"}`), file("/a", `,"user":{"id":1000}`)}, "same-file: file /a: user: 20-b wins over 10-a [10-a 20-b]"},
		"a link in place of a file":                  {[]string{plain("/a", "1"), link}, "same-path: link /a: kind: 20-b wins over 10-a [10-a 20-b]"},
		"a directory with another mode":              {[]string{`"storage":{"directories":[{"path":"/d","mode":448}]}`, `"storage":{"directories":[{"path":"/d","mode":493}]}`}, "same-directory: directory /d: mode: 20-b wins over 10-a [10-a 20-b]"},
		"a link to elsewhere":                        {[]string{link, `"storage":{"links":[{"path":"/a","target":"/u"}]}`}, "same-link: link /a: target: 20-b wins over 10-a [10-a 20-b]"},
		"a unit enabled by one, disabled by another": {[]string{unit(`,"enabled":true`), unit(`,"enabled":false`)}, "same-unit: unit a.service: enabled: 20-b wins over 10-a [10-a 20-b]"},
		"a unit, and a drop-in to it":                {[]string{unit(`,"contents":"[Unit]\n"`), dropin(`[Service]`)}, ""},
		"a drop-in of the same name":                 {[]string{dropin("[Unit]"), dropin("[Service]")}, "dropin-replaced: unit a.service: drop-in 10.conf: 20-b wins over 10-a [10-a 20-b]"},
		"a drop-in of a unit that is masked later":   {[]string{dropin("[Unit]"), unit(`,"mask":true`)}, "dropin-replaced: unit a.service: drop-ins: 20-b wins over 10-a [10-a 20-b]"},
		"a drop-in to a unit that is masked already": {[]string{unit(`,"mask":true`), dropin("[Unit]")}, ""},
		"another password, never shown":              {[]string{user(`,"passwordHash":"one"`), user(`,"passwordHash":"two"`)}, "same-user: user core: passwordHash: 20-b wins over 10-a [10-a 20-b]"},
		"keys add up":                                {[]string{user(`,"sshAuthorizedKeys":["a"]`), user(`,"sshAuthorizedKeys":["b"]`)}, ""},
		"another gid":                                {[]string{`"passwd":{"groups":[{"name":"g","gid":1}]}`, `"passwd":{"groups":[{"name":"g","gid":2}]}`}, "same-group: group g: gid: 20-b wins over 10-a [10-a 20-b]"},
		"the pool's own over what it inherits":       {[]string{plain("/a", "1"), "!" + plain("/a", "2")}, "overrides-worker: file /a: contents: 20-b wins over 10-a [10-a 20-b]"},
		"two of the pool's own, and what it inherits": {
			[]string{plain("/a", "1"), "!" + plain("/a", "2"), "!" + plain("/a", "3")},
			"same-file: file /a: contents: 30-c wins over 10-a, 20-b [10-a 20-b 30-c]",
		},
		"in the order of lists and names": {
			[]string{unit(`,"enabled":true`) + "," +
				`"storage":{"files":[{"path":"/b","mode":1},{"path":"/a","mode":1}]}`, unit(`,"enabled":false`) + "," +
				`"storage":{"files":[{"path":"/a","mode":2},{"path":"/b","mode":2}]}`},
			"same-file: file /a: mode: 20-b wins over 10-a [10-a 20-b]\n" +
				"same-file: file /b: mode: 20-b wins over 10-a [10-a 20-b]\n" +
				"same-unit: unit a.service: enabled: 20-b wins over 10-a [10-a 20-b]",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			var mcs []*mcfgv1.MachineConfig
			for i, body := range c.bodies {
				body, own := strings.CutPrefix(body, "!")
				role := "worker"
				if own {
					role = "infra"
				}
				mcs = append(mcs, mc([]string{"10-a", "20-b", "30-c"}[i], role, body))
			}
			if diff := cmp.Diff(c.want, lines(merged(t, mcs...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func lines(r render.Rendered) string {
	var out []string
	for _, n := range r.Notices {
		out = append(out, n.String()+" ["+strings.Join(n.Inputs, " ")+"]")
	}
	return strings.Join(out, "\n")
}

func TestNoticesOfArgumentsAndSettings(t *testing.T) {
	for sentence, c := range map[string]struct {
		a, b mcfgv1.MachineConfigSpec
		want string
	}{
		"another value":                       {mcfgv1.MachineConfigSpec{KernelArguments: []string{"mitigations=off quiet"}}, mcfgv1.MachineConfigSpec{KernelArguments: []string{"mitigations=auto"}}, "same-karg: kargs mitigations: value: 20-b wins over 10-a [10-a 20-b]"},
		"the same value":                      {mcfgv1.MachineConfigSpec{KernelArguments: []string{"quiet", "a=1"}}, mcfgv1.MachineConfigSpec{KernelArguments: []string{"a=1", "quiet"}}, ""},
		"arguments that are given repeatedly": {mcfgv1.MachineConfigSpec{KernelArguments: []string{"console=tty0", "rd.luks.uuid=1", "ip=a"}}, mcfgv1.MachineConfigSpec{KernelArguments: []string{"console=ttyS0", "rd.luks.uuid=2", "ip=b"}}, ""},
		"one MachineConfig that repeats":      {mcfgv1.MachineConfigSpec{KernelArguments: []string{"a=1", "a=2"}}, mcfgv1.MachineConfigSpec{}, ""},
		"another kernel and another image":    {mcfgv1.MachineConfigSpec{KernelType: "realtime", OSImageURL: "a"}, mcfgv1.MachineConfigSpec{KernelType: "64k-pages", OSImageURL: "b"}, "same-setting: kernel-type: value: 20-b wins over 10-a [10-a 20-b]\nsame-setting: os-image: value: 20-b wins over 10-a [10-a 20-b]"},
		"an image that only one sets":         {mcfgv1.MachineConfigSpec{OSImageURL: "a"}, mcfgv1.MachineConfigSpec{KernelType: "default"}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			a, b := mc("10-a", "worker", ""), mc("20-b", "worker", "")
			a.Spec, b.Spec = c.a, c.b
			if diff := cmp.Diff(c.want, lines(merged(t, a, b))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
