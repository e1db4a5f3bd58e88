package monitoring

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dashboard is as much of Grafana's format as matters here.
type dashboard struct {
	Title  string `json:"title"`
	UID    string `json:"uid"`
	Panels []struct {
		ID          int    `json:"id"`
		Title       string `json:"title"`
		Type        string `json:"type"`
		Description string `json:"description"`
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string `json:"name"`
			Type  string `json:"type"`
			Query any    `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

func TestTheDashboardAsksForWhatIsExported(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(config, "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(content, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) == 0 {
		t.Fatal("the dashboard has no title, uid or panels")
	}
	have, ids, taken := programs(t), map[int]bool{}, map[[2]int]string{}
	variables := strings.NewReplacer("$pool", "worker", "$__rate_interval", "5m", "$__range", "1h")
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has no title, or the id of another", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := taken[[2]int{x, y}]; ok || x > 23 {
					t.Fatalf("panel %q lies on %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.Description == "" {
			t.Errorf("panel %q has no query or no description", p.Title)
		}
		for _, target := range p.Targets {
			known(t, p.Title, variables.Replace(target.Expr), have)
		}
	}
}
