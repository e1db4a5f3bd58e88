package machineconfig_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

const imageDigest = "@sha256:abababababababababababababababababababababababababababababababab"

func TestAnImageIsADigest(t *testing.T) {
	for reference, want := range map[string]string{
		"":                                "",
		"quay.io/org/os" + imageDigest:    "",
		"quay.io/org/os:41" + imageDigest: "",
		"registry.example:5000/a/b__c" + imageDigest:                             "",
		"[2001:db8::1]:5000/os" + imageDigest:                                    "",
		"fedora/coreos" + imageDigest:                                            "",
		"containers-storage:localhost/os" + imageDigest:                          "",
		"ostree://fedora:fedora/x86_64/coreos/stable@" + strings.Repeat("0", 64): "",

		"quay.io/org/os:41":               `"quay.io/org/os:41" names no digest, so nodes with the same config could run different images: write quay.io/org/os:41@sha256:…, as ` + "`bunsen hash FILE` does",
		"os":                              "write os@sha256:…, as `bunsen hash FILE` does",
		"containers-storage:localhost/os": "write containers-storage:localhost/os@sha256:…",
		"quay.io/org/os@sha256:0123":      "is not sha256 and 64 hexadecimal digits",
		"quay.io/org/os@sha512:" + strings.Repeat("0", 128): "is not sha256 and 64 hexadecimal digits",
		"quay.io/org/os@":                                      "is not sha256 and 64 hexadecimal digits",
		"quay.io/Org/os" + imageDigest:                         "is not a reference of an image",
		"quay.io/org/os:" + imageDigest:                        "is not a reference of an image",
		"docker://quay.io/org/os" + imageDigest:                "is not a reference of an image",
		"ostree-unverified-registry:quay.io/a/b" + imageDigest: "is not a reference of an image",
		"oci-archive:/var/os.ociarchive":                       "is in a file of the node",
		"oci:/var/os" + imageDigest:                            "is in a file of the node",
		"ostree://fedora/stable@0123":                          "is not a reference of an image",
	} {
		got := machineconfig.CheckImage(reference)
		if (got == nil) != (want == "") || got != nil && !strings.Contains(got.Error(), want) {
			t.Errorf("%q: %v, want %q", reference, got, want)
		}
	}
	config := machineconfig.Config{OSImageURL: "a/b:1", ExtensionsImage: "a/c:1"}
	bad := machineconfig.CheckImages(config).Err()
	if bad == nil || !strings.HasPrefix(bad.Error(), `osImageURL: "a/b:1" names`) ||
		!strings.Contains(bad.Error(), `baseOSExtensionsContainerImage: "a/c:1" names`) {
		t.Errorf("the images of a config: %v", bad)
	}
}

// TestWhatANodePulls: skopeo, which pulls for rpm-ostree and bootc, refuses a tag beside a digest.
func TestWhatANodePulls(t *testing.T) {
	for reference, want := range map[string]string{
		"":                                  "",
		"quay.io/org/os:41":                 "quay.io/org/os:41",
		"quay.io/org/os:41" + imageDigest:   "quay.io/org/os" + imageDigest,
		"localhost:5000/os:1" + imageDigest: "localhost:5000/os" + imageDigest,
		"localhost:5000/os" + imageDigest:   "localhost:5000/os" + imageDigest,
		"containers-storage:localhost/os:1" + imageDigest: "containers-storage:localhost/os" + imageDigest,
		"oci-archive:/var/os.ociarchive:tag":              "oci-archive:/var/os.ociarchive:tag",
		"registry.example/os:1@sha256:1":                  "registry.example/os:1@sha256:1",
	} {
		if got := machineconfig.PulledImage(reference); got != want {
			t.Errorf("%q is pulled as %q, want %q", reference, got, want)
		}
	}
}

func TestWhereAnImageIs(t *testing.T) {
	for reference, want := range map[string]string{
		"quay.io/org/os:41":        "oci://quay.io/org/os:41",
		"localhost/os":             "oci://localhost/os",
		"localhost:5000/os:1":      "oci://localhost:5000/os:1",
		"Registry.Example/os:1":    "oci://registry.example/os:1",
		"fedora/coreos:stable":     "oci://docker.io/fedora/coreos:stable",
		"alpine":                   "oci://docker.io/library/alpine",
		"docker.io/alpine:3":       "oci://docker.io/library/alpine:3",
		"quay.io/os" + imageDigest: "oci://quay.io/os" + imageDigest,
	} {
		is, err := machineconfig.ParseImage(reference)
		if err != nil && !errors.Is(err, machineconfig.ErrNoImageDigest) || is.String() != reference {
			t.Errorf("%q is %q, %v", reference, is, err)
		}
		if got := is.Artifact().String(); got != want {
			t.Errorf("%q is at %s, want %s", reference, got, want)
		}
	}
}
