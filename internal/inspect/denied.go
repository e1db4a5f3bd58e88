package inspect

import (
	"fmt"

	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// mostDenied limits the denied machines in a text.
const mostDenied = 3

// DeniedOf returns an answer for each denied machine that requested the name of a node, the last denial first.
func DeniedOf(f *fleet.Fleet, node string) []Answer {
	var out []Answer
	for _, m := range f.Denied {
		if m.Node == node && len(out) < mostDenied {
			out = append(out, deniedAnswer(f, m))
		}
	}
	return out
}

// DeniedFor returns one answer for the denied machines of a pool; nil if there are none.
func DeniedFor(f *fleet.Fleet, pool string) []Answer {
	var own []fleet.DeniedMachine
	for _, m := range f.Denied {
		if m.Pool == pool {
			own = append(own, m)
		}
	}
	if len(own) == 0 {
		return nil
	}
	a := Answer{Outcome: Fine, Cause: fleet.CauseDenied, Reason: DeniedText(own)}
	return []Answer{a}
}

func deniedAnswer(f *fleet.Fleet, m fleet.DeniedMachine) Answer {
	return Answer{
		Outcome: Fine, Cause: fleet.CauseDenied,
		Reason: fmt.Sprintf("the controller denied certificate request %s %s (%s): %s", m.Request,
			fleet.AgoIn(f.Cluster, m.At, f.Now), m.Reason, m.Message),
		Do: []string{fleet.ShellLine("kubectl", "describe", "csr", m.Request)},
	}
}

// DeniedText names denied machines in one sentence, without ages. The list must not be empty.
func DeniedText(denied []fleet.DeniedMachine) string {
	names := make([]string, len(denied))
	for i, m := range denied {
		if names[i] = m.Node + " (" + m.Reason + ")"; m.Node == "" {
			names[i] = "an unknown machine (" + m.Reason + ")"
		}
	}
	help := "kubectl describe csr"
	if m := denied[0]; m.Node != "" {
		help = fleet.ShellLine("bunsen", "why", "node/"+m.Node)
	}
	return fmt.Sprintf("the controller denied the certificate requests of %s: %s: %s",
		fleet.Count(len(denied), "machine"), fleet.Names(names, mostDenied), help)
}
