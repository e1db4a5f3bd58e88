package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/controller/gitsource"
)

// TestASecretThatNamesNoHostsIsNotUsed: whoever edits a GitSource chooses the URL to which the Secret's credentials go.
func TestASecretThatNamesNoHostsIsNotUsed(t *testing.T) {
	open, trees, err := opener(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer trees.Close()
	login := map[string][]byte{"username": []byte("me"), "password": []byte("pass-word")}
	spec := v1alpha1.GitSourceSpec{URL: "https://git.example.com/os"}
	_, err = open(spec, gitsource.Secrets{Credentials: login})
	if err == nil || !strings.Contains(err.Error(), `add the line "hosts: git.example.com"`) {
		t.Errorf("got the error %v", err)
	}
	login["hosts"] = []byte("git.example.com")
	if _, err := open(spec, gitsource.Secrets{Credentials: login}); err != nil {
		t.Errorf("a Secret that names its host is refused: %v", err)
	}
}

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
