package drift_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/mcd/drift"
	"github.com/bunsen-os/bunsen/mcd/host"
)

func TestTheReport(t *testing.T) {
	n := newNode(t, usual)
	n.rules("/etc/motd", "Report", "/etc/localtime", "Ignore")
	n.write("/etc/motd", "x")
	n.write("/etc/app/secret.key", "hunter3")
	n.edit("/etc/localtime", func(e *host.Entry) { e.Target = "/x" })
	n.Observed.Units["app.service"] = host.Unit{Install: "WantedBy=multi-user.target"}
	report, ok := n.decide(noon).Report("rendered-worker-1")
	if !ok {
		t.Fatal("nothing is reported")
	}
	text, err := drift.Encode(report)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"config":"rendered-worker-1","items":[` +
		`{"name":"/etc/app/secret.key","kind":"content","action":"Degrade","since":"2026-01-02T12:00:00Z","expected":{"type":"file","mode":"0600","owner":"0:0"},"actual":{"type":"file","mode":"0600","owner":"0:0"},"modified":"2026-01-02T11:00:00Z","secret":true},` +
		`{"name":"/etc/motd","kind":"content","action":"Report","since":"2026-01-02T12:00:00Z","expected":{"type":"file","digest":"` + string(host.DigestOf([]byte("hello\nworld\n"))) + `","mode":"0640","owner":"0:0"},"actual":{"type":"file","digest":"` + string(host.DigestOf([]byte("x"))) + `","mode":"0640","owner":"0:0"},"modified":"2026-01-02T11:00:00Z"},` +
		`{"name":"app.service","kind":"enablement","action":"Degrade","since":"2026-01-02T12:00:00Z","why":"unit \"app.service\": expected enabled; received disabled","expected":{"type":"enabled"},"actual":{"type":"disabled"}}]}`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Error(diff)
	}

	later, _ := n.decide(noon.Add(time.Hour)).Report("rendered-worker-1")
	if again, _ := drift.Encode(later); again != text {
		t.Error("the same drift is reported in other words an hour later:", again)
	}
	n.Observed, n.contents = newNode(t, usual).Observed, nil
	if _, ok := n.decide(noon).Report("rendered-worker-1"); ok {
		t.Error("there is a report of nothing")
	}
}

func TestALongReportIsCutWithACount(t *testing.T) {
	r := v1alpha1.Drift{Config: "rendered-worker-1"}
	for i := range 2000 {
		action := v1alpha1.DriftReport
		if i == 1999 {
			action = v1alpha1.DriftDegrade
		}
		r.Items = append(r.Items, v1alpha1.DriftItem{
			Name: fmt.Sprintf("/etc/%04d", i), Kind: v1alpha1.DriftContent,
			Action: action, Since: metav1.NewTime(noon),
		})
	}
	text, err := drift.Encode(r)
	if err != nil || len(text) > v1alpha1.MaxDrift || len(text) < v1alpha1.MaxDrift*9/10 {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	var back v1alpha1.Drift
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		t.Fatal(err)
	}
	last := back.Items[len(back.Items)-1]
	if back.More+len(back.Items) != 2000 || last.Name != "/etc/1999" || back.Items[0].Name != "/etc/0000" {
		t.Errorf("%d listed, %d more, the last %s", len(back.Items), back.More, last.Name)
	}
}

func TestAReasonNamesAFewAndCountsTheRest(t *testing.T) {
	n := newNode(t, usual)
	for p := range n.Wanted.Paths {
		n.edit(p, func(e *host.Entry) { e.Owner.UID = 7 })
	}
	reason := n.decide(noon).Reason("rendered-worker-1")
	if len(reason) > 2000 || !strings.Contains(reason, "and 5 more (see bunsen drift)") ||
		!strings.Contains(reason, host.ForcePath) {
		t.Error(len(reason), reason)
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		says             string
		path, text       string
		want, never      string
		mode             uint32
		expected, actual []byte
	}{
		{"a text is compared line by line", "/etc/motd", "", "@@ -1,2 +1,2 @@\n hello\n-world\n+moon\n", "hidden", 0o640, []byte("hello\nworld\n"), []byte("hello\nmoon\n")},
		{"a last line without an end is marked", "/etc/motd", "", "-a\n+b\n\\ No newline at end of file\n", "", 0o640, []byte("a\n"), []byte("b")},
		{"what only its owner may read is hidden", "/etc/motd", "", "(hidden: the contents are secret)", "moon", 0o600, []byte("world\n"), []byte("moon\n")},
		{"what is no text is counted", "/etc/motd", "", "1 bytes expected, 2 bytes received", "\x00", 0o644, []byte("a"), []byte("\x00\x01")},
		{"what is too long is counted", "/etc/motd", "", "65537 bytes received, which are no text or too long", "xxx", 0o644, []byte("a"), []byte(strings.Repeat("x", 1<<16+1))},
		{"another mode is said", "/etc/motd", "", "# mode: expected 0640; received 0644\n", "", 0o644, []byte("a\n"), []byte("b\n")},
	} {
		t.Run(c.says, func(t *testing.T) {
			n := newNode(t, usual)
			n.write(c.path, string(c.actual))
			n.edit(c.path, func(e *host.Entry) { e.Mode = c.mode })
			d := n.decide(noon)
			text := drift.Diff(d.Results[0], "rendered-worker-1", c.expected, c.actual)
			if !strings.Contains(text, c.want) || c.never != "" && strings.Contains(text, c.never) {
				t.Error(text)
			}
		})
	}
}

func TestWhichPoliciesAreForAPool(t *testing.T) {
	object := func(name string, spec v1alpha1.DriftPolicySpec) v1alpha1.DriftPolicy {
		spec.Rules = []v1alpha1.DriftRule{{Path: "/" + name, Action: v1alpha1.DriftIgnore}}
		return v1alpha1.DriftPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	}
	all := []v1alpha1.DriftPolicy{
		object("c-label",
			v1alpha1.DriftPolicySpec{MachineConfigPoolSelector: &metav1.LabelSelector{
				MatchLabels: map[string]string{"tier": "edge"},
			}}),
		object("b-worker", v1alpha1.DriftPolicySpec{Pools: []string{"worker"}, Repair: v1alpha1.RepairLimit{Burst: 5}}),
		object("a-all", v1alpha1.DriftPolicySpec{}),
		object("d-master", v1alpha1.DriftPolicySpec{Pools: []string{"master"}}),
	}
	names := func(p drift.Policy) (out []string) {
		for _, r := range p.Rules {
			out = append(out, fmt.Sprintf("%s %s %d/%s", r.Policy, r.Pattern, r.Limit.Burst, r.Limit.Interval))
		}
		return out
	}
	for _, c := range []struct {
		pool   string
		labels map[string]string
		want   []string
	}{
		{"worker", nil, []string{"a-all /a-all 3/10m0s", "b-worker /b-worker 5/10m0s"}},
		{"edge", map[string]string{"tier": "edge"}, []string{"a-all /a-all 3/10m0s", "c-label /c-label 3/10m0s"}},
		{"", nil, []string{"a-all /a-all 3/10m0s"}},
	} {
		got, err := drift.Select(all, c.pool, c.labels)
		if diff := cmp.Diff(c.want, names(got)); err != nil || diff != "" {
			t.Errorf("pool %q: %v %s", c.pool, err, diff)
		}
	}
	bad := object("bad",
		v1alpha1.DriftPolicySpec{MachineConfigPoolSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
		}})
	got, err := drift.Select(append(all, bad), "worker", nil)
	if err == nil || !strings.Contains(err.Error(), "DriftPolicy bad") || len(got.Rules) != 2 {
		t.Error(err, got)
	}
}
