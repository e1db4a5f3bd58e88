package view

import (
	"time"

	"github.com/bunsen-os/bunsen/internal/console/region"
	"github.com/bunsen-os/bunsen/internal/inspect"
)

// Overview draws the state of the whole cluster: warnings, a card for each pool, sources and servers.
func Overview(s inspect.Status, now time.Time) []region.Region {
	var cards []region.Region
	for _, row := range s.Pools {
		id := "pool-" + row.Name
		cards = append(cards, draw(id, "overview-pool", struct {
			ID  string
			Row inspect.PoolRow
			Now time.Time
		}{id, row, now}))
	}
	return []region.Region{draw("warnings", "overview-warnings", s.Warnings), draw("pools", "overview-pools", nil, cards...)}
}
