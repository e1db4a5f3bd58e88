package main

import (
	"fmt"

	"github.com/bunsen-os/bunsen/bench/measure"
	"github.com/bunsen-os/bunsen/bench/plane"
)

// auditPolicy logs the bodies of the controller's writes to nodes, and one line for each other request.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Request, users: [` + plane.User + `], verbs: [patch, update], resources: [{group: "", resources: [nodes]}]}
- {level: Metadata, users: [` + plane.User + `]}
- {level: None}
`

// mostWrites is the goal for one changed row: the config of its node, and that of the pool.
const mostWrites = 2

// mostGrowth is the goal for what the controller needs with more nodes: in step with them.
const mostGrowth = 1.1

// figures returns what the pools cost, beside the smallest of them.
func figures(results []result) (all []measure.Figure) {
	first := results[0]
	for _, r := range results {
		add := func(what string, now, least measure.Amount, goals ...measure.Bound) {
			f := measure.Figure{What: what, Size: r.nodes, Of: "nodes", Now: now, Goals: goals}
			if first.nodes < r.nodes {
				f.Peers = []measure.Peer{{Name: fmt.Sprintf("at %d nodes", first.nodes), Now: least}}
			}
			all = append(all, f)
		}
		add("MachineConfigs", measure.Number(float64(r.objects), ""), measure.Number(float64(first.objects), ""))
		add("their size", measure.Bytes(r.bytes), measure.Bytes(first.bytes))
		add("the target's size", measure.Bytes(r.target), measure.Bytes(first.target))
		add("etcd's size after the first commit", measure.Bytes(r.etcd), measure.Bytes(first.etcd))
		for i, s := range r.steps {
			least := first.steps[i]
			add(s.what+": until the pool has its config", measure.Time(s.rendered), measure.Time(least.rendered))
			if s.updated > 0 {
				add(s.what+": until all nodes run theirs", measure.Time(s.updated), measure.Time(least.updated))
			}
			add(s.what+": CPU time", measure.Time(s.cpu), measure.Time(least.cpu), measure.GrowthAtMost(mostGrowth))
			add(s.what+": peak memory", measure.Bytes(s.peak), measure.Bytes(least.peak))
			var configs, moved []measure.Bound
			if s.what == oneRow {
				configs = append(configs, measure.AtMost(measure.Number(mostWrites, "")))
				moved = append(moved, measure.AtMost(measure.Number(1, "")), measure.AtLeast(measure.Number(1, "")))
			}
			add(s.what+": new MachineConfigs", measure.Number(float64(s.created), ""),
				measure.Number(float64(least.created), ""), configs...)
			if s.updated > 0 {
				add(s.what+": assigned nodes", measure.Number(float64(s.moved), ""),
					measure.Number(float64(least.moved), ""), moved...)
			}
		}
	}
	measure.Grow(all)
	return all
}
