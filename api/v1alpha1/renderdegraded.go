package v1alpha1

import "strings"

// RenderDegradedMessage returns the message of a pool's condition RenderDegraded. It has the original's text, because
// alerts and tools use it.
func RenderDegradedMessage(pool, problem string) string { return renderDegraded(pool) + problem }

// RenderProblem returns the problem of a message from RenderDegradedMessage. It returns other messages unchanged.
func RenderProblem(pool, message string) string {
	return strings.TrimPrefix(message, renderDegraded(pool))
}

func renderDegraded(pool string) string {
	return "Failed to render configuration for pool " + pool + ": "
}
