package drain

// Cordoned is whether pods may be scheduled on a node, and whether it was Bunsen who forbade it.
type Cordoned struct {
	// Unschedulable is true on a cordoned node.
	Unschedulable bool
	// For is the value of the annotation bunsen.dev/cordoned-for: the config that Bunsen cordoned the node for.
	For string
}

// Change is what to write to a node, in one patch.
type Change struct {
	// Needed is false where the node is as it should be; the rest is then the node as it is.
	Needed bool
	// To is how the node should be; an empty For removes the annotation.
	To Cordoned
}

// Cordon is what a drain for a config asks of a node. Whoever cordoned a node without our mark keeps it: no mark is put
// there, so that Uncordon leaves it alone. A node that somebody uncordoned during a drain is cordoned again, as ours.
func Cordon(c Cordoned, config string) Change {
	if c.Unschedulable && c.For == "" {
		return Change{To: c}
	}
	return change(c, Cordoned{Unschedulable: true, For: config})
}

// Uncordon lifts our own cordon only. Who cordons a node while ours stands cannot be told from us.
func Uncordon(c Cordoned) Change {
	if c.For == "" {
		return Change{To: c}
	}
	return change(c, Cordoned{})
}

// Tidy removes our mark from a node that somebody else uncordoned after its drain was acknowledged: left there, it would
// make an administrator's next cordon look like ours. Call it where no drain is asked for.
func Tidy(c Cordoned) Change {
	if c.Unschedulable {
		return Change{To: c}
	}
	return change(c, Cordoned{})
}

func change(from, to Cordoned) Change { return Change{Needed: from != to, To: to} }
