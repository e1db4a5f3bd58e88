package review

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/bunsen-os/bunsen/transpile"
)

// Pair renders both sides of a comparison, but of a pool that is made of the same fragments on both sides only the name,
// where an earlier run left it on the transpiler's shelf: nothing else of it is compared. So the cost follows the change.
func (r *Renderings) Pair(base, head transpile.Result) (was, is Rendering) {
	same := map[string]string{}
	keys := r.inputs(head)
	for pool, key := range r.inputs(base) {
		if name, ok := r.name(key); ok && keys[pool] == key {
			same[pool] = name
		}
	}
	was, is = r.renderBut(same, base), r.renderBut(same, head)
	for _, p := range is.Pools {
		if same[p.Rendered.Pool] == "" {
			r.keepName(keys[p.Rendered.Pool], p.Rendered.Name)
		}
	}
	return was, is
}

// renderBut renders all pools but those whose names are known.
func (r *Renderings) renderBut(known map[string]string, res transpile.Result) Rendering {
	return job{result: res, renderer: &r.Renderer, defaults: r.Defaults, known: known}.run()
}

// name is what a pool of these inputs was called. A damaged entry is no entry.
func (r *Renderings) name(key string) (string, bool) {
	if r.Transpiler.Shelf == nil || key == "" {
		return "", false
	}
	entry, ok := r.Transpiler.Shelf.Get(key)
	name, _, _ := strings.Cut(string(entry), " ")
	return name, ok && string(entry) == sealed(key, name)
}

func (r *Renderings) keepName(key, name string) {
	if r.Transpiler.Shelf != nil && key != "" {
		r.Transpiler.Shelf.Put(key, []byte(sealed(key, name)))
	}
}

// sealed is a name with a digest of it and of what it was made of.
func sealed(key, name string) string {
	return fmt.Sprintf("%s %x", name, sha256.Sum256([]byte(key+" "+name)))
}

// inputs are digests of all that each pool is made of; a pool whose selector cannot be read has none, and its error is
// told where it is rendered.
func (r *Renderings) inputs(res transpile.Result) map[string]string {
	out := map[string]string{}
	for _, pool := range transpile.AllPools(res) {
		selected, err := transpile.Select(res, pool)
		if err != nil {
			continue
		}
		h := sha256.New()
		_, _ = fmt.Fprintf(h, "%q %q %q\n", pool, r.Defaults.OSImageURL, r.Defaults.ExtensionsImage) // a hash takes all
		for _, f := range selected {
			_, _ = io.WriteString(h, f.Digest+"\n")
		}
		out[pool] = "rendered " + hex.EncodeToString(h.Sum(nil))
	}
	return out
}
