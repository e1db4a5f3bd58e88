package cluster

import "slices"

// RecentVariants decides which configs of single nodes a server keeps: those that were needed last; none without
// limits.
type RecentVariants struct {
	// in number and in bytes together
	Most, MostBytes int
	// the one that was needed last at the end
	names []string
	sizes map[string]int
	bytes int
}

// Use records that a config was needed, and returns those to remove, which may include the config itself.
func (r *RecentVariants) Use(name string, size int) (remove []string) {
	r.Remove(name)
	if r.sizes == nil {
		r.sizes = map[string]int{}
	}
	r.names, r.sizes[name] = append(r.names, name), size
	r.bytes += size
	for len(r.names) > r.Most || r.bytes > r.MostBytes {
		oldest := r.names[0]
		remove = append(remove, oldest)
		r.Remove(oldest)
	}
	return remove
}

// Remove removes a config, and reports whether it was kept.
func (r *RecentVariants) Remove(name string) bool {
	i := slices.Index(r.names, name)
	if i < 0 {
		return false
	}
	r.names = slices.Delete(r.names, i, i+1)
	r.bytes -= r.sizes[name]
	delete(r.sizes, name)
	return true
}
