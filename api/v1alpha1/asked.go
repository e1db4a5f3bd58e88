package v1alpha1

// MaxHistory is how many applied revisions a GitSource remembers.
const MaxHistory = 20

// AskedBy is the commit of a history, newest first, that asked last for a pool's rendered config: of the newest commits in a line
// that have it the oldest, for the others changed nothing. Nil where the history has none, or may have forgotten it.
func AskedBy(history []HistoryEntry, pool, rendered string) *CommitInfo {
	var found *CommitInfo
	applied := 0
	for i := range history {
		if history[i].Refused == nil {
			applied++
		}
		switch has := history[i].Pools[pool]; {
		case has == "":
		case has == rendered:
			found = &history[i].CommitInfo
		case found != nil:
			return found
		}
	}
	if applied >= MaxHistory {
		return nil
	}
	return found
}
