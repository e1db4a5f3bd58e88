package v1alpha1

// MaxHistory is how many applied revisions the status of a GitSource contains.
const MaxHistory = 20

// AskedBy returns the commit of a history, newest first, that last requested a pool's rendered config. If several
// consecutive commits have the config, it is the oldest of them, because the others changed nothing. It returns nil if
// the history has no such commit, or may no longer contain it.
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
