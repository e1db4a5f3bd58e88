package poolstate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Postponed is a drain that was postponed to update another node first; the zero value for none.
type Postponed struct {
	// For is the rendered config that the node was drained for.
	For string
	// At is when the drain was postponed.
	At time.Time
}

// String returns the value of PostponedAnnotation; empty for the zero value.
func (p Postponed) String() string {
	if p.For == "" {
		return ""
	}
	return p.For + " " + p.At.UTC().Format(time.RFC3339)
}

// readPostponed is the inverse of Postponed.String.
func readPostponed(text string) Postponed {
	config, at, _ := strings.Cut(text, " ")
	if t := ParseTime(at); !t.IsZero() {
		return Postponed{For: config, At: t}
	}
	return Postponed{}
}

// Drains are the postponed drains of a node for one config; the zero value for none.
type Drains struct {
	// For is the rendered config of the drains.
	For string
	// First is when the first of the drains began.
	First time.Time
	// Postponed is the number of postponed drains.
	Postponed int
}

// String returns the value of DrainsAnnotation; empty for the zero value.
func (d Drains) String() string {
	if d.For == "" {
		return ""
	}
	return fmt.Sprintf("%s %s %d", d.For, d.First.UTC().Format(time.RFC3339), d.Postponed)
}

// readDrains is the inverse of Drains.String.
func readDrains(text string) Drains {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return Drains{}
	}
	n, err := strconv.Atoi(fields[2])
	if first := ParseTime(fields[1]); err == nil && n > 0 && !first.IsZero() {
		return Drains{For: fields[0], First: first, Postponed: n}
	}
	return Drains{}
}

// Add adds a drain for a config that the controller postpones now. The parameter began is when the drain started.
func (d Drains) Add(config string, began time.Time) Drains {
	if d.For != config {
		d = Drains{For: config, First: began}
	}
	d.Postponed++
	return d
}

// PostponedText says how often the drain for the node's desired config was postponed, and when the first drain began;
// empty for none.
func (n *Node) PostponedText() string {
	switch {
	case n.Drains.For == "" || n.Drains.For != n.Config.Desired:
		return ""
	case n.Drains.Postponed == 1:
		return ", after a postponed drain at " + FormatTime(n.Drains.First)
	}
	return fmt.Sprintf(", after %d postponed drains, the first at %s", n.Drains.Postponed, FormatTime(n.Drains.First))
}
