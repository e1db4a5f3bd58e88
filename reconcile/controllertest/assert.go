package controllertest

import (
	"strings"
	"testing"
)

// Contains fails the test if a text lacks any of the parts.
func Contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}

// Equal fails the test if a value is not the expected value.
func Equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is\n%v, want\n%v", what, got, want)
	}
}
