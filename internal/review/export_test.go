package review

import "fmt"

// Assumption is a row of what the estimate rests on.
type Assumption struct {
	// What takes the time, and of which nodes.
	What, Of string
	// Min and Max in words.
	Min, Max string
}

// Assumptions lists what the estimate rests on, for one node each.
func Assumptions() []Assumption {
	row := func(what, of string, s seconds) Assumption {
		word := func(n int) string {
			if n < 60 {
				return fmt.Sprintf("%d s", n)
			}
			return fmt.Sprintf("%d min", n/60)
		}
		return Assumption{what, of, word(s.min), word(s.max)}
	}
	return []Assumption{
		row("Noticing the config, writing files, reloading and restarting services, reporting", "every node", applying),
		row("Moving pods away", "nodes that drain or reboot", draining),
		row("Rebooting, from drained to Ready", "nodes that reboot", rebooting),
		row("Fetching another image, kernel or extension", "nodes that get one", staging),
	}
}
