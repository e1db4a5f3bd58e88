package git

import "context"

// Parents are the hashes of the revision's parents, the first one first; also of those that a shallow repository lacks.
// Errors are faults.
func (h *History) Parents(ctx context.Context) ([]string, error) {
	v, err := h.commit(h.start)
	if err != nil {
		return nil, damaged(ctx, "reading the parents of a commit", err)
	}
	out := make([]string, len(v.parents))
	for i, p := range v.parents {
		out[i] = p.String()
	}
	return out, nil
}

// Shallow tells of a repository that lacks history: what the oldest commits that it has seem to have written may be older.
func (h *History) Shallow() bool { return h.shallow }
