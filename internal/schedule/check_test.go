package schedule_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/schedule"
)

// policyOf reads a policy's spec; a name comes first, before a colon.
func policyOf(t *testing.T, name, spec string) v1alpha1.RolloutPolicy {
	t.Helper()
	p := v1alpha1.RolloutPolicy{}
	p.Name = name
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("%v in\n%s", err, spec)
	}
	return p
}

// One mistake each; the problem is the whole of what Check says.
func TestProblemsOfAPolicy(t *testing.T) {
	for _, c := range []struct{ sentence, spec, want string }{
		{"an empty policy is fine", `{}`, ""},
		{"all that there is, well written", everything, ""},
		{"batches may end with all nodes", `batches: [{upTo: 10%}, {upTo: 50%}, {upTo: 100%}]`, ""},
		{"numbers and percentages are not compared", `batches: [{upTo: 5}, {upTo: 1%}, {upTo: 50}, {upTo: 20%}]`, ""},
		{"a name that no pool has", `pools: [Worker]`, `spec.pools[0]: "Worker" is no name of a pool; write one such as worker`},
		{"a pool named twice", `pools: [a, b, a]`, `spec.pools[2]: a is named twice; remove one`},
		{"a selector that cannot be read", `machineConfigPoolSelector: {matchExpressions: [{key: tier, operator: Like, values: [edge]}]}`, `spec.machineConfigPoolSelector: it cannot be read: "Like" is not a valid label selector operator; operators are In, NotIn, Exists and DoesNotExist`},
		{"a budget of nothing", `maxUnavailable: 0`, `spec.maxUnavailable: 0 stops nothing, for it is read as 1; write 1 or more, or pause the pool`},
		{"a budget of no percent", `maxUnavailablePerZone: 0%`, `spec.maxUnavailablePerZone: 0 stops nothing, for it is read as 1; write 1 or more, or pause the pool`},
		{"a budget below zero", `maxUnavailable: -1`, `spec.maxUnavailable: -1 is below zero; write a number of nodes, or a percentage`},
		{"a budget of more than all", `maxUnavailableTogether: 150%`, `spec.maxUnavailableTogether: 150% is more than all nodes; write 100% or less`},
		{"a budget in words", `maxUnavailable: two`, `spec.maxUnavailable: "two" is neither a number nor a percentage; write a number such as 2, or a percentage such as "10%"`},
		{"a number in quotation marks", `maxUnavailable: "2"`, `spec.maxUnavailable: "2" is neither a number nor a percentage; write a number such as 2, or a percentage such as "10%"`},
		{"a canary of nobody", `canary: {soak: 10m}`, `spec.canary: it picks no node; write nodes: 1, or a nodeSelector`},
		{"a canary of no node", `canary: {nodes: 0}`, `spec.canary.nodes: 0 nodes are no step; write 1 or more`},
		{"a canary picked in two ways", `canary: {nodes: 1, nodeSelector: {matchLabels: {a: b}}}`, `spec.canary: it has both nodes and nodeSelector; write one of them`},
		{"a canary selector that cannot be read", `canary: {nodeSelector: {matchExpressions: [{key: a, operator: In}]}}`, `spec.canary.nodeSelector: it cannot be read: values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty; operators are In, NotIn, Exists and DoesNotExist`},
		{"a canary of everybody", `canary: {nodeSelector: {}}`, `spec.canary.nodeSelector: it picks every node, and leaves none for later; write labels, such as matchLabels: {canary: "true"}`},
		{"a soak below zero", `canary: {nodes: 1, soak: -10m}`, `spec.canary.soak: -10m0s is below zero; write a duration such as 30m`},
		{"batches that do not grow", `batches: [{upTo: 10}, {upTo: 10}]`, `spec.batches[1].upTo: up to 10 is not more than the step before, up to 10. The number includes the nodes of earlier steps; write a larger one, or remove the step`},
		{"batches that shrink, past another kind of number", `batches: [{upTo: 50%}, {upTo: 3}, {upTo: 10%}]`, `spec.batches[2].upTo: up to 10% is not more than the step before, up to 50%. The number includes the nodes of earlier steps; write a larger one, or remove the step`},
		{"a batch that the canary has done already", `{canary: {nodes: 3}, batches: [{upTo: 2}]}`, `spec.batches[0].upTo: up to 2 is not more than the step before, up to 3. The number includes the nodes of earlier steps; write a larger one, or remove the step`},
		{"a batch in words", `batches: [{upTo: half}]`, `spec.batches[0].upTo: "half" is neither a number nor a percentage; write a number such as 2, or a percentage such as "10%"`},
		{"two gates of one name", `gates: [{name: a, ready: {for: 5m}}, {name: a, ready: {for: 6m}}]`, `spec.gates[1].name: another gate is named a too; write another name`},
		{"a gate without a name", `gates: [{ready: {for: 5m}}]`, `spec.gates[0].name: the gate has no name; write one that people know it by`},
		{"a gate that asks nothing", `gates: [{name: a}]`, `spec.gates[0]: it asks 0 questions; write exactly one of ready, daemonSets, job and prometheus, and a gate of its own for each other`},
		{"a gate that asks two questions", `gates: [{name: a, ready: {for: 5m}, daemonSets: [{namespace: kube-system, name: cni}]}]`, `spec.gates[0]: it asks 2 questions; write exactly one of ready, daemonSets, job and prometheus, and a gate of its own for each other`},
		{"Ready for no time", `gates: [{name: a, ready: {for: 0s}}]`, `spec.gates[0].ready.for: 0s is no time to be Ready for; write a duration such as 5m`},
		{"no daemon set", `gates: [{name: a, daemonSets: []}]`, `spec.gates[0].daemonSets: it names none; write namespace and name of each`},
		{"a daemon set twice", `gates: [{name: a, daemonSets: [{namespace: ns, name: d}, {namespace: ns, name: d}]}]`, `spec.gates[0].daemonSets[1]: ns/d is named twice; remove one`},
		{"a daemon set in no namespace", `gates: [{name: a, daemonSets: [{name: d}]}]`, `spec.gates[0].daemonSets[0].namespace: "" is no namespace; write the one that the object is in`},
		{"a cron job without a name", `gates: [{name: a, job: {cronJob: {namespace: n}}}]`, `spec.gates[0].job.cronJob.name: "" is no name of an object; write its metadata.name`},
		{"a server that is none", `gates: [{name: a, prometheus: {url: "http:///x", query: up}}]`, `spec.gates[0].prometheus.url: "http:///x" is no URL of a server; write one such as http://prometheus.monitoring.svc:9090`},
		{"a server without a scheme", `gates: [{name: a, prometheus: {url: "prometheus:9090", query: up}}]`, `spec.gates[0].prometheus.url: "prometheus:9090" is no URL of a server; write one such as http://prometheus.monitoring.svc:9090`},
		{"a password in the URL", `gates: [{name: a, prometheus: {url: "https://me:hunter2@p", query: up}}]`, `spec.gates[0].prometheus.url: it has a user and a password, which all who read the policy would know; remove them, and let the network say who may ask`},
		{"a password in a URL that is none", `gates: [{name: a, prometheus: {url: "https://me:hunter2@p:x", query: up}}]`, `spec.gates[0].prometheus.url: it is no URL; write one such as http://prometheus.monitoring.svc:9090`},
		{"the path of the API", `gates: [{name: a, prometheus: {url: "http://p/prom/api/v1/query", query: up}}]`, `spec.gates[0].prometheus.url: the path of the API is added by itself; write what comes before /api/v1`},
		{"a question in the URL", `gates: [{name: a, prometheus: {url: "http://p/?query=up", query: up}}]`, `spec.gates[0].prometheus.url: it has a part after the path; write the server alone, such as http://prometheus.monitoring.svc:9090, and the question as query`},
		{"no question", `gates: [{name: a, prometheus: {url: "http://p", query: " "}}]`, `spec.gates[0].prometheus.query: there is no query; write one that is true while the service is healthy, such as sum(up{job="ingress"}) >= 3`},
		{"more batches than the schema takes", `batches: [` + hundred() + `]`, `spec.batches: 100 are more than the 50 that a policy may have; write fewer, or a second policy`},
		{"fewer failures than none", `failures: {after: -1}`, `spec.failures.after: -1 nodes; write 1 or more`},
		{"an action that there is not", `failures: {action: Panic}`, `spec.failures.action: "Panic" is no action; there are Halt and Revert`},
		{"a deadline of no time", `failures: {nodeDeadline: 0s}`, `spec.failures.nodeDeadline: 0s would fail a node that reboots at once; write a duration such as 30m, or remove it to wait without limit`},
		{"a pool that waits for itself", `{pools: [worker], after: [master, worker]}`, `spec.after[1]: worker would wait for itself; remove it here, or write a policy for the pools that wait for it`},
		{"a pool to wait for, twice", `after: [master, master]`, `spec.after[1]: master is named twice; remove one`},
		{"a window that never opens", `windows: [{schedule: "0 0 30 2 *", duration: 1h}]`, `spec.windows[0].schedule: schedule "0 0 30 2 *" never opens: no such day comes in those months`},
		{"a zone that is none", `windows: [{schedule: "@daily", duration: 1h}, {schedule: "@daily", duration: 1h, timeZone: Berlin}]`, `spec.windows[1].timeZone: time zone "Berlin" is not known; write an IANA name such as Europe/Berlin, America/New_York or UTC`},
		{"a window of no time", `windows: [{schedule: "@daily"}]`, `spec.windows[0].duration: it lasts 0s, and so never opens; write how long it stays open, such as 4h`},
		{"an end before the beginning", `windows: [{schedule: "@daily", duration: 1h, from: "2025-02-01T00:00:00Z", until: "2025-01-01T00:00:00Z"}]`, `spec.windows[0].until: until 2025-01-01T00:00:00Z is not after from 2025-02-01T00:00:00Z; exchange them`},
		{"a kind that there is not", `windows: [{kind: Block, schedule: "@daily", duration: 1h}]`, `spec.windows[0].kind: "Block" is no kind of window; there are Allow and Deny`},
		{"a drain's action that there is not", `drain: {whenBlocked: Skip}`, `spec.drain.whenBlocked: "Skip" is no action; there are Wait, MoveOn and Delete`},
		{"a drain's time below zero", `drain: {after: -1h}`, `spec.drain.after: -1h0m0s is below zero; write a duration such as 30m`},
	} {
		p := policyOf(t, "p", c.spec)
		var got []string
		for _, problem := range schedule.CheckPolicy(&p) {
			got = append(got, problem.Path+": "+problem.Text)
		}
		// A library puts a blank, or one that does not break, as it likes.
		if diff := cmp.Diff(c.want, strings.ReplaceAll(strings.Join(got, "\n"), "\u00a0", " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.sentence, diff)
		}
	}
}

func hundred() string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "{upTo: %d},", i+1)
	}
	return b.String()
}

const everything = `
pools: [worker]
machineConfigPoolSelector: {matchLabels: {tier: edge}}
maxUnavailable: 10%
maxUnavailablePerZone: 2
maxUnavailableTogether: 20
canary: {nodes: 1, soak: 10m}
batches: [{upTo: 10%, soak: 5m}, {upTo: 50%}]
gates:
- {name: settled, ready: {for: 5m}}
- {name: network, daemonSets: [{namespace: kube-system, name: cni}]}
- {name: smoke, job: {cronJob: {namespace: test, name: smoke}}}
- {name: errors, prometheus: {url: "http://prometheus.monitoring.svc:9090/prefix", query: "sum(rate(errors[5m])) < bool 1"}}
failures: {after: 2, action: Revert, nodeDeadline: 30m}
after: [master]
windows:
- {name: weekend, schedule: "0 22 * * fri", duration: 55h, timeZone: Europe/Berlin}
- {name: freeze, kind: Deny, schedule: "* * * * *", duration: 1m, from: "2025-12-15T00:00:00Z", until: "2026-01-07T00:00:00Z"}
drain: {whenBlocked: MoveOn, after: 30m}
`

func TestAllProblemsAreToldAtOnce(t *testing.T) {
	p := policyOf(t, "p", `
pools: [w, w]
maxUnavailable: none
canary: {}
batches: [{upTo: 101%}, {upTo: -1}]
gates: [{name: a}, {name: a}]
failures: {action: Panic}
windows: [{schedule: "61 * * * *", duration: 0s, timeZone: Mars}]
drain: {whenBlocked: Skip}
`)
	var got []string
	for _, problem := range schedule.CheckPolicy(&p) {
		got = append(got, problem.Path)
	}
	want := []string{
		"spec.pools[1]", "spec.maxUnavailable", "spec.canary", "spec.batches[0].upTo", "spec.batches[1].upTo",
		"spec.gates[0]", "spec.gates[1].name", "spec.gates[1]",
		"spec.failures.action", "spec.windows[0].schedule", "spec.windows[0].timeZone", "spec.windows[0].duration",
		"spec.drain.whenBlocked",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDoubtsOfAPolicy(t *testing.T) {
	const idle = "spec.drain.after: after has no effect with whenBlocked: Wait, because the controller then tries to " +
		"drain without limit. Write whenBlocked: MoveOn or Delete, or remove after"
	for spec, want := range map[string]string{
		`{}`:                         "",
		`drain: {}`:                  "",
		`drain: {whenBlocked: Wait}`: "",
		`drain: {whenBlocked: MoveOn, after: 5m}`: "",
		`drain: {after: 5m}`:                      idle,
		`drain: {whenBlocked: Wait, after: 5m}`:   idle,
	} {
		p := policyOf(t, "p", spec)
		got := ""
		for _, d := range schedule.Doubts(&p) {
			got += d.Path + ": " + d.Text
		}
		if got != want {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}
