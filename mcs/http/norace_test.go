//go:build !race

package http

// slower is how much longer a test may take without the race detector.
const slower = 1
