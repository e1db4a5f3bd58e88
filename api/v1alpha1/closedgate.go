package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// ClosedGate is a health gate that blocks a pool's rollout: one gate of the pool, or the gates of one node.
type ClosedGate struct {
	// Gate is the name of a gate of the pool; empty if Node is set.
	Gate string `json:"gate,omitempty"`
	// Node is the name of a node whose own gates do not succeed; empty if Gate is set.
	Node string `json:"node,omitempty"`
	// Why is the reason, for users.
	Why string `json:"why"`
}

// ParseClosedGates reads ClosedGatesAnnotation. An empty text is an empty list.
func ParseClosedGates(text string) ([]ClosedGate, error) {
	if text == "" {
		return nil, nil
	}
	var gates []ClosedGate
	if err := json.Unmarshal([]byte(text), &gates); err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", ClosedGatesAnnotation, err)
	}
	return gates, nil
}

// FormatClosedGates returns the value of ClosedGatesAnnotation for the gates. It is empty for no gates.
func FormatClosedGates(gates []ClosedGate) string {
	if len(gates) == 0 {
		return ""
	}
	text, err := json.Marshal(gates)
	if err != nil {
		return "" // they consist of texts, which always marshal
	}
	return string(text)
}
