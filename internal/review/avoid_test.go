package review_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/review"
)

const butaneHead = "variant: fcos\nversion: 1.5.0\n"

func butaneFile(path, content string) string {
	return butaneHead + "storage:\n  files:\n    - path: " + path + "\n      contents:\n        inline: " + content +
		"\n"
}

// butaneUnit is a document with one unit, of which lines are indented.
func butaneUnit(name, attributes string) string {
	return butaneHead + "systemd:\n  units:\n    - name: " + name + "\n      " + strings.ReplaceAll(attributes, "\n",
		"\n      ") + "\n"
}

const appUnit = "enabled: true\ncontents: |\n  [Service]\n  ExecStart=/bin/%s\n\n  [Install]\n" +
	"  WantedBy=multi-user.target"

// change is a repository before and after, with what head has in cluster/.
func change(before, after map[string]string, cluster string) *txtar.Archive {
	a := &txtar.Archive{}
	for side, files := range map[string]map[string]string{"base": before, "head": after} {
		for name, text := range files {
			a.Files = append(a.Files, txtar.File{Name: side + "/pools/worker/" + name, Data: []byte(text)})
		}
	}
	if cluster != "" {
		a.Files = append(a.Files, txtar.File{Name: "head/cluster/rules.yaml", Data: []byte(cluster)})
	}
	return a
}

// pasted adds what a review prints to the MachineConfiguration that head has, "" for none.
func pasted(t *testing.T, existing string, a *review.AvoidReboots) string {
	t.Helper()
	if existing == "" {
		return a.YAML
	}
	var doc, add map[string]any
	if err := yaml.Unmarshal([]byte(existing), &doc); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(a.YAML), &add); err != nil {
		t.Fatalf("%v:\n%s", err, a.YAML)
	}
	rules := doc["spec"].(map[string]any)["nodeDisruptionPolicy"].(map[string]any)
	for list, entries := range add {
		had, _ := rules[list].([]any)
		rules[list] = append(had, entries.([]any)...)
	}
	out, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestThePrintedRulesAvoidTheReboots adds what a review prints to head and compares again, for each well-known path and
// for units, in repositories with and without a MachineConfiguration: each reboot becomes the actions that the review
// announced.
func TestThePrintedRulesAvoidTheReboots(t *testing.T) {
	const mc = "apiVersion: operator.openshift.io/v1\nkind: MachineConfiguration\nmetadata:\n  name: cluster\nspec:\n" +
		"  managementState: Managed\n  nodeDisruptionPolicy:\n"
	existing := map[string]string{
		"no MachineConfiguration":         "",
		"a MachineConfiguration":          mc + "    sshkey:\n      actions:\n        - type: None\n",
		"a MachineConfiguration of files": mc + "    files:\n      - path: /etc/other\n        actions:\n          - type: None\n",
	}
	forms := map[string]string{
		"a unit":                   butaneUnit("app.service", appUnit),
		"a oneshot unit":           butaneUnit("app.service", strings.Replace(appUnit, "[Service]", "[Service]\n  Type=oneshot", 1)),
		"a timer":                  butaneUnit("app.timer", "enabled: true\ncontents: |\n  [Timer]\n  OnCalendar=%s\n\n  [Install]\n  WantedBy=timers.target"),
		"a drop-in of the kubelet": butaneUnit("kubelet.service", "dropins:\n  - name: 10-a.conf\n    contents: |\n      [Service]\n      Environment=A=%s"),
	}
	for _, r := range disruption.WellKnown() {
		path := r.Name
		if strings.HasSuffix(path, "/") {
			path += "10-a.conf"
		}
		forms[path] = butaneFile(path, "%s")
	}
	for sentence, form := range forms {
		for has, own := range existing {
			t.Run(sentence+" and "+has, func(t *testing.T) {
				before, after := map[string]string{"10-a.bu": fmt.Sprintf(form, "before")},
					map[string]string{"10-a.bu": fmt.Sprintf(form, "after")}
				c := compared(t, change(before, after, own))
				if c.Pools[0].Disruption != "reboot" || c.AvoidReboots == nil || len(c.Pools[0].Items) != 1 {
					t.Fatalf("no rule for a reboot:\n%s", printed(t, c)[0])
				}
				if want := own != ""; (c.AvoidReboots.File == "cluster/rules.yaml") != want ||
					len(c.AvoidReboots.StillReboot) > 0 {
					t.Errorf("file %q, still reboot %q", c.AvoidReboots.File, c.AvoidReboots.StillReboot)
				}
				rules := pasted(t, own, c.AvoidReboots)
				again := compared(t, change(before, after, rules))
				if diff := cmp.Diff(c.Pools[0].Items[0].AvoidReboot.Actions, again.Pools[0].Actions); diff != "" ||
					again.Pools[0].Disruption == "reboot" || again.AvoidReboots != nil {
					t.Errorf("with the rules:\n%s\nother actions than announced (-announced +real):\n%s%s", rules, diff,
						printed(t, again)[0])
				}
			})
		}
	}
}

// TestNoRuleIsPrintedWhereARebootIsNeeded lists changes of which a rule would hide that they take hold at the next boot
// only.
func TestNoRuleIsPrintedWhereARebootIsNeeded(t *testing.T) {
	keep := butaneFile("/etc/keep", "x")
	unit := func(name, attributes string) [2]string {
		return [2]string{fmt.Sprintf(butaneUnit(name, attributes), "before"), fmt.Sprintf(butaneUnit(name, attributes),
			"after")}
	}
	dropin := "dropins:\n  - name: 10-a.conf\n    contents: |\n      [Service]\n      Environment=A=%s"
	for sentence, sides := range map[string][2]string{
		"a sysctl file that goes, whose keys stay":    {butaneFile("/etc/sysctl.d/a.conf", "a=1"), keep},
		"a module's file that goes":                   {butaneFile("/etc/modules-load.d/a.conf", "a"), keep},
		"a udev rule that goes":                       {butaneFile("/etc/udev/rules.d/a.rules", "a"), keep},
		"a path that no rule is known for":            {butaneFile("/etc/fstab", "before"), butaneFile("/etc/fstab", "after")},
		"tmpfiles.d, whose service cannot restart":    {butaneFile("/etc/tmpfiles.d/a.conf", "before"), butaneFile("/etc/tmpfiles.d/a.conf", "after")},
		"options of modules that are loaded":          {butaneFile("/etc/modprobe.d/a.conf", "before"), butaneFile("/etc/modprobe.d/a.conf", "after")},
		"a unit that goes":                            {fmt.Sprintf(butaneUnit("app.service", appUnit), "before"), keep},
		"a unit that becomes disabled":                {fmt.Sprintf(butaneUnit("app.service", appUnit), "x"), fmt.Sprintf(butaneUnit("app.service", strings.Replace(appUnit, "true", "false", 1)), "x")},
		"a unit that becomes masked":                  {fmt.Sprintf(butaneUnit("app.service", appUnit), "x"), butaneUnit("app.service", "mask: true")},
		"a unit that was replaced and has drop-ins":   {fmt.Sprintf(butaneUnit("kubelet.service", appUnit), "x"), fmt.Sprintf(butaneUnit("kubelet.service", dropin), "x")},
		"a drop-in of a unit that is known to nobody": unit("app.service", dropin),
		"a drop-in of a disabled kubelet":             unit("kubelet.service", "enabled: false\n"+dropin),
		"a unit of early boot":                        unit("app.service", strings.Replace(appUnit, "[Service]", "[Unit]\n  DefaultDependencies=no\n  [Service]", 1)),
		"a unit that nobody may stop":                 unit("app.service", strings.Replace(appUnit, "[Service]", "[Unit]\n  RefuseManualStop = yes\n  [Service]", 1)),
		"a unit of the first boot":                    unit("app.service", strings.Replace(appUnit, "[Service]", "[Unit]\n  ConditionFirstBoot=yes\n  [Service]", 1)),
		"a template":                                  unit("app@.service", appUnit),
		"a mount":                                     unit("data.mount", "enabled: true\ncontents: |\n  [Mount]\n  What=/dev/%s\n  Where=/data\n\n  [Install]\n  WantedBy=local-fs.target"),
		"the message bus":                             unit("dbus-broker.service", appUnit),
		"a service of systemd":                        unit("systemd-networkd.service", appUnit),
	} {
		t.Run(sentence, func(t *testing.T) {
			before, after := map[string]string{"10-a.bu": sides[0]}, map[string]string{"10-a.bu": sides[1]}
			if sides[1] == keep {
				before["20-b.bu"] = keep
			}
			c := compared(t, change(before, after, ""))
			if c.Pools[0].Disruption != "reboot" || c.AvoidReboots != nil {
				t.Errorf("want a reboot and no rule:\n%s", printed(t, c)[0])
			}
		})
	}
}

// TestARuleIsPrintedOnce changes 40 files below one directory and one that no rule is known for.
func TestARuleIsPrintedOnce(t *testing.T) {
	before, after := map[string]string{}, map[string]string{}
	for i := range 40 {
		name, path := fmt.Sprintf("%d-a.bu", 10+i), fmt.Sprintf("/etc/sysctl.d/%d.conf", i)
		before[name], after[name] = butaneFile(path, "before"), butaneFile(path, "after")
	}
	before["90-gone.bu"] = butaneFile("/etc/sysctl.d/gone.conf", "x")
	c := compared(t, change(before, after, ""))
	for _, text := range printed(t, c) {
		if strings.HasPrefix(text, "{") {
			continue
		}
		if hints, rules := strings.Count(text, "avoids this reboot"),
			strings.Count(text, "- path: /etc/sysctl.d/"); hints != 1 || rules != 1 {
			t.Errorf("%d hints and %d rules, want one of each:\n%s", hints, rules, text)
		}
	}
	if len(c.AvoidReboots.StillReboot) > 0 || !strings.Contains(c.AvoidReboots.YAML,
		"keeps its value until the next boot") {
		t.Errorf("the rule covers the removed file too, and its note says what stays: %+v", c.AvoidReboots)
	}
	before["95-other.bu"], after["95-other.bu"] = butaneFile("/etc/fstab", "before"), butaneFile("/etc/fstab", "after")
	c = compared(t, change(before, after, ""))
	if !slices.Equal(c.AvoidReboots.StillReboot, []string{"worker"}) || !strings.Contains(printed(t, c)[0],
		"even so, other changes still reboot worker\n") {
		t.Errorf("/etc/fstab still reboots: %q\n%s", c.AvoidReboots.StillReboot, printed(t, c)[0])
	}
}
