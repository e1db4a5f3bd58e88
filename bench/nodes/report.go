package main

import (
	"fmt"
	"io"

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

// report writes the tables.
func report(out io.Writer, results []result) error {
	fmt.Fprintln(out, "\nWhat a cluster stores after the first commit")
	g := measure.Grid{Head: []string{"<", "MachineConfigs", "MB", "KB a node", "KB of the target", "MB of etcd"}}
	for _, r := range results {
		g.Add(fmt.Sprintf("%d nodes", r.nodes), fmt.Sprint(r.objects), fmt.Sprintf("%.1f", float64(r.bytes)/1e6),
			fmt.Sprintf("%.1f", float64(r.bytes)/1e3/float64(r.nodes)),
			fmt.Sprintf("%.0f", float64(r.target)/1e3), fmt.Sprintf("%.1f", float64(r.etcd)/1e6))
	}
	if err := g.Print(out); err != nil {
		return err
	}
	fmt.Fprintln(out, "\nThe controller, from a commit until the pool has its config, and until all nodes run theirs")
	g = measure.Grid{Head: []string{
		"<", "<", "rendered", "updated", "CPU", "growth", "peak MB", "new configs",
		"nodes assigned", "<goal", "<met",
	}}
	for n := range results[0].steps {
		for i, r := range results {
			s := r.steps[n]
			growth, updated := "", "-"
			if i > 0 {
				was := results[i-1]
				growth = measure.Power(measure.Exponent(was.nodes, r.nodes, float64(was.steps[n].cpu), float64(s.cpu)))
			}
			if s.updated > 0 {
				updated = measure.Duration(s.updated)
			}
			goal, met := s.judge()
			g.Add(s.what, fmt.Sprintf("%d nodes", r.nodes), measure.Duration(s.rendered), updated,
				measure.Duration(s.cpu), growth,
				fmt.Sprintf("%.0f", float64(s.peak)/1e6), fmt.Sprint(s.created), fmt.Sprint(s.moved), goal, met)
		}
	}
	return g.Print(out)
}

// judge returns the goal of a step and whether the step met it.
func (s step) judge() (goal, met string) {
	if s.what != "one row" {
		return "", ""
	}
	met = "yes"
	if s.created > mostWrites || s.moved != 1 {
		met = "NO"
	}
	return fmt.Sprintf("≤ %d configs, 1 node", mostWrites), met
}
