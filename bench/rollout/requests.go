package main

import (
	"strings"

	"github.com/bunsen-os/bunsen/bench/plane"
)

// auditPolicy logs the bodies of the controller's writes to nodes, and one line for each other request of the
// controller.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, users: [` + plane.User + `], verbs: [patch, update], resources: [{group: "", resources: [nodes]}]}
- {level: Metadata, users: [` + plane.User + `]}
- {level: None}
`

// requests are the controller's requests.
type requests struct {
	// counts by kind of request, such as "list pods".
	counts map[string]int
	// told, tainted and drained are the numbers of writes to each node, by their purpose.
	told, tainted, drained map[string]int
}

func newRequests() requests {
	return requests{
		counts: map[string]int{}, told: map[string]int{}, tainted: map[string]int{},
		drained: map[string]int{},
	}
}

func (r *requests) add(e plane.Request) {
	what := e.String()
	if what == "patch nodes" {
		kind, of := r.kind(string(e.RequestObject))
		what += ", " + kind
		if e.ResponseStatus.Code < 300 {
			of[e.ObjectRef.Name]++
		}
	}
	if e.ResponseStatus.Code == 409 {
		what += " (conflict)"
	}
	r.counts[what]++
}

// kind returns the purpose of a write to a node.
func (r *requests) kind(body string) (string, map[string]int) {
	switch {
	case strings.Contains(body, "/desiredConfig"):
		return "the order", r.told
	case strings.Contains(body, `"taints"`):
		return "the taint", r.tainted
	default:
		return "the drain", r.drained
	}
}

// most returns the maximum and the mean number of the rollout's writes to a node. It counts the drain separately.
func (r *requests) most(nodes int) (most int, mean, drain float64) {
	sum := 0
	for node, n := range r.told {
		sum += n
		most = max(most, n+r.tainted[node])
	}
	for node, n := range r.tainted {
		sum += n
		most = max(most, n+r.told[node])
	}
	drained := 0
	for _, n := range r.drained {
		drained += n
	}
	return most, float64(sum) / float64(nodes), float64(drained) / float64(nodes)
}
