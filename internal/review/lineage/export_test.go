package lineage

// All is the lineage of every item: files, directories and links by path, units, users, groups, storage by name, then
// the rest; kernel arguments and extensions one by one.
func (l *Lineage) All() []Item {
	entries := l.entries()
	out := make([]Item, 0, len(entries))
	for _, e := range entries {
		if item, err := l.Explain(e.kind, e.name); err == nil {
			out = append(out, item)
		}
	}
	return out
}
