package source_test

import (
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
)

// TestWhichFieldsFitTogether: a digest is of an artifact, submodules are of a git repository, an artifact has no
// committers, and no URL has a password.
func TestWhichFieldsFitTogether(t *testing.T) {
	const git, registry = "https://git.example.com/os", "oci://registry.example.com/team/os"
	type spec = v1alpha1.GitSourceSpec
	for name, test := range map[string]struct {
		spec  spec
		words string
	}{
		"git":                           {spec{URL: git, Include: []v1alpha1.SourceContent{v1alpha1.ContentSubmodules}}, ""},
		"git with signers":              {spec{URL: git, Verify: &v1alpha1.Verification{Mode: v1alpha1.VerifyTag}}, ""},
		"a user in the URL":             {spec{URL: "https://me@git.example.com/os"}, ""},
		"a URL that nothing can follow": {spec{URL: "ftp://git.example.com/os"}, ""}, // ParseURL refuses it
		"a password in the URL":         {spec{URL: "https://me:S3CR3T@git.example.com/os"}, "spec.url holds a password"},
		"a digest of a git repository":  {spec{URL: git, Ref: v1alpha1.GitRef{Digest: "sha256:0"}}, "spec.ref.digest is for oci:// only"},
		"an artifact":                   {spec{URL: registry, Ref: v1alpha1.GitRef{Digest: "sha256:0"}}, ""},
		"a signed artifact":             {spec{URL: registry, Verify: &v1alpha1.Verification{Mode: v1alpha1.VerifyHead}}, ""},
		"an artifact with a signed tag": {spec{URL: registry, Verify: &v1alpha1.Verification{Mode: v1alpha1.VerifyTag}}, "the mode Head only"},
		"an artifact with committers":   {spec{URL: registry, Verify: &v1alpha1.Verification{Committers: []string{"a@example.com"}}}, "without signers, committers and authors"},
		"an artifact with submodules":   {spec{URL: registry, Include: []v1alpha1.SourceContent{v1alpha1.ContentSubmodules}}, "spec.include is for git repositories only"},
	} {
		err := source.CheckSpec(test.spec)
		if (err == nil) != (test.words == "") || err != nil && !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: got %v, want %q", name, err, test.words)
		}
		if f := fault.Of(err, ""); err != nil && (f.Kind != fault.Stalled || f.Reason != v1alpha1.ReasonInvalidSpec ||
			strings.Contains(err.Error(), "S3CR3T")) {
			t.Errorf("%s: %v %v", name, f.Kind, err)
		}
	}
}
