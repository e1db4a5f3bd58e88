package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/reconcile/gitsource"
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

// TestWhichFieldsARepositoryHas: a digest is of an artifact, a branch is of a git repository, and each has keys of its
// kind.
func TestWhichFieldsARepositoryHas(t *testing.T) {
	open, trees, err := opener(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	defer trees.Close()
	const registry, digest = "oci://registry.example.com/team/os",
		"sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for name, test := range map[string]struct {
		spec  v1alpha1.GitSourceSpec
		words string
	}{
		"an artifact":                     {v1alpha1.GitSourceSpec{URL: registry, Ref: v1alpha1.GitRef{Digest: digest}}, ""},
		"a digest of a git repository":    {v1alpha1.GitSourceSpec{URL: "https://git.example.com/os", Ref: v1alpha1.GitRef{Digest: digest}}, "spec.ref.digest is for oci:// only"},
		"a branch of an artifact":         {v1alpha1.GitSourceSpec{URL: registry, Ref: v1alpha1.GitRef{Branch: "main"}}, "set ref.tag, ref.semver or ref.digest"},
		"submodules in an artifact":       {v1alpha1.GitSourceSpec{URL: registry, Include: []v1alpha1.SourceContent{v1alpha1.ContentSubmodules}}, "spec.include is for git repositories only"},
		"a name in capitals":              {v1alpha1.GitSourceSpec{URL: "oci://registry.example.com/Team"}, "in lower case"},
		"a tag in the URL":                {v1alpha1.GitSourceSpec{URL: registry + ":v1"}, "a tag or digest into ref"},
		"an artifact that must be signed": {v1alpha1.GitSourceSpec{URL: registry, Verify: &v1alpha1.Verification{}}, "the Secret has no key: add cosign.pub"},
	} {
		_, err := open(test.spec, gitsource.Secrets{})
		if test.words == "" && err != nil || test.words != "" &&
			(err == nil || !strings.Contains(err.Error(), test.words)) {
			t.Errorf("%s: got %v, want %q", name, err, test.words)
		}
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
