package inspect

import (
	"fmt"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/inspect/fleet"
)

// ConfigAccess reports a risk: nodes that can read the configs of every pool, with their secrets, through the API
// server.
type ConfigAccess struct {
	// ReadAll is how many Nodes of pools can read every config.
	ReadAll int `json:"readAll"`
	Nodes   int `json:"nodes"`
	// NeededBy are the nodes that might get no config without the access to every config: the machine-config-server
	// does not serve them their configs, or their daemon does not report from where it reads configs.
	NeededBy []string `json:"neededBy,omitempty"`
}

// configAccess returns nil if no node reports that it can read every config.
func configAccess(f *fleet.Fleet) *ConfigAccess {
	a := new(ConfigAccess)
	for i := range f.Nodes {
		name := f.Nodes[i].Name
		if _, unmanaged := f.Unmanaged[name]; unmanaged {
			continue
		}
		a.Nodes++
		report := f.Daemons[name]
		if report.ReadsAllConfigs {
			a.ReadAll++
		}
		if report.ConfigsFrom != v1alpha1.ConfigsFromServer {
			a.NeededBy = append(a.NeededBy, name)
		}
	}
	if a.ReadAll == 0 {
		return nil
	}
	return a
}

// text describes the risk and the fix in one line; empty for nil.
func (a *ConfigAccess) text() string {
	const most = 3
	if a == nil {
		return ""
	}
	risk := fmt.Sprintf("%d of %s report that they may read the configs of every pool through the API server",
		a.ReadAll, fleet.Count(a.Nodes, "node"))
	if len(a.NeededBy) == 0 {
		return risk + ", and none needs to: remove the component nodes-read-configs (docs/security.md)"
	}
	return risk + "; needed by " + fleet.Names(a.NeededBy, most) + ", which do not read theirs from a " +
		"machine-config-server"
}
