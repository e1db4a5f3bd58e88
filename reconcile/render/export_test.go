package render

import "math"

// WithoutLimit is a Renderer for measurements beyond what a cluster stores.
func WithoutLimit() *Renderer { return &Renderer{limit: math.MaxInt} }
