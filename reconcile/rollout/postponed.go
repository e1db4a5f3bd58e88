package rollout

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Postponed is a drain that was given up to take another node first. The zero value: none was.
type Postponed struct {
	// For is the rendered config that the node was drained for.
	For string
	// At is when it was given up.
	At time.Time
}

// String is what PostponedAnnotation has; empty for the zero value.
func (p Postponed) String() string {
	if p.For == "" {
		return ""
	}
	return p.For + " " + p.At.UTC().Format(time.RFC3339)
}

// readPostponed is String's inverse.
func readPostponed(text string) Postponed {
	config, at, _ := strings.Cut(text, " ")
	if t := readTime(at); !t.IsZero() {
		return Postponed{For: config, At: t}
	}
	return Postponed{}
}

// Drains are the drains of a node for one config that were postponed. The zero value: none was.
type Drains struct {
	// For is the rendered config.
	For string
	// First is when the first of them began.
	First time.Time
	// Postponed is how many there were.
	Postponed int
}

// String is what DrainsAnnotation has; empty for the zero value.
func (d Drains) String() string {
	if d.For == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %d", d.For, d.First.UTC().Format(time.RFC3339), d.Postponed)
}

// readDrains is String's inverse.
func readDrains(text string) Drains {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Drains{}
	}
	n, err := strconv.Atoi(fields[2])
	if first := readTime(fields[1]); err == nil && n > 0 && !first.IsZero() {
		return Drains{For: fields[0], First: first, Postponed: n}
	}
	return Drains{}
}

// postpone adds a drain for a config that began then and is postponed now.
func (d Drains) postpone(config string, began time.Time) Drains {
	if d.For != config {
		d = Drains{For: config, First: began}
	}
	d.Postponed++
	return d
}

// PostponedText says how often the drain for the node's desired config was postponed, and when the first one began; empty where
// it never was.
func (n *Node) PostponedText() string {
	switch {
	case n.Drains.For == "" || n.Drains.For != n.Config.Desired:
		return ""
	case n.Drains.Postponed == 1:
		return ", after a postponed drain at " + at(n.Drains.First)
	}
	return fmt.Sprintf(", after %d postponed drains, the first at %s", n.Drains.Postponed, at(n.Drains.First))
}

func (d Drains) same(o Drains) bool {
	return d.For == o.For && d.Postponed == o.Postponed && d.First.Equal(o.First)
}
