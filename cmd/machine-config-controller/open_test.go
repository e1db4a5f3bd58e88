package main

import (
	"strings"
	"testing"
)

// TestTheStoreIsTheUsersOwn: in a shared temporary directory another user could be first.
func TestTheStoreIsTheUsersOwn(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/home/me/.cache")
	if dir, err := storeDir(""); err != nil || dir != "/home/me/.cache/bunsen/store" {
		t.Errorf("the default is %s, %v", dir, err)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if _, err := storeDir(""); err == nil || !strings.Contains(err.Error(), "--store") {
		t.Errorf("without a home: %v", err)
	}
}
