package image

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bunsen-os/bunsen/mcd/linux/machine"
)

func TestWhatTheRealProgramsPrintIsUnderstood(t *testing.T) {
	el := release{coreOS: true, enterprise: true}
	for file, want := range map[string]string{
		"rpm-ostree-rhcos.json": "booted 0 registry.example/release/os@sha256:" + strings.Repeat("1", 64) + "\nnext 0 registry.example/release/os@sha256:" + strings.Repeat("1", 64),
		"rpm-ostree-edge.json": "booted 0 ostree://edge:rhel/8/x86_64/edge@" + strings.Repeat("c", 64) +
			" with [glibc-langpack-en ksh rhc wget] [] [] []" +
			"\nnext 0 ostree://edge:rhel/8/x86_64/edge@" + strings.Repeat("c", 64) + " with [glibc-langpack-en ksh " +
			"rhc wget] [] [] []",
		"rpm-ostree-staged.json": "booted 1 ostree://fedora:fedora/x86_64/coreos/stable@" + strings.Repeat("9", 64) +
			"\nnext 0 ostree://fedora:fedora/x86_64/coreos/stable@" + strings.Repeat("f", 64),
		"rpm-ostree-bootc.json": "booted 1 registry.example/os:stable\nnext 0 192.0.2.1:5000/os:latest",
	} {
		text, err := os.ReadFile(filepath.Join("testdata/os/recorded", file))
		if err != nil {
			t.Fatal(err)
		}
		d, err := parseDeployments(text)
		if err != nil || d.busy {
			t.Fatalf("%s: busy %t, %v", file, d.busy, err)
		}
		said := func(name string, d deployment) string {
			text := name + " " + string(rune('0'+d.at)) + " " + d.os(el).Image
			if d.layered() {
				text += " with " + d.foreignPackages()
			}
			return text
		}
		if got := said("booted", d.booted) + "\n" + said("next", d.next); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", file, got, want)
		}
	}
	for file, want := range map[string]string{"bootc.json": "192.0.2.1:5000/os:latest", "bootc-none.json": ""} {
		text, err := os.ReadFile(filepath.Join("testdata/os/recorded", file))
		if err != nil {
			t.Fatal(err)
		}
		is, err := parseBootc(text)
		if (err != nil) != (want == "") || is.booted != want || is.next != want || is.staged {
			t.Errorf("%s is %+v, %v", file, is, err)
		}
	}
}

func TestAListWithoutWhatRunsIsAnError(t *testing.T) {
	for _, text := range []string{`{"deployments":[]}`, `{"deployments":[{"booted":false}]}`, `State: idle`, ``} {
		if d, err := parseDeployments([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, d)
		}
	}
}

func TestAQueuedRollbackIsTheNextBoot(t *testing.T) {
	is, err := parseBootc(
		[]byte(`{"status":{"booted":{"image":{"image":{"image":"b","transport":"registry"}}},"rollback":{"image":{"image":{"image":"a","transport":"containers-storage"}}},"rollbackQueued":true}}`))
	if err != nil || is.next != "containers-storage:a" || is.booted != "b" || is.staged {
		t.Errorf("%+v, %v", is, err)
	}
	// bootc shows the tag beside the digest, and a config compares what is pulled.
	const digest = "@sha256:abababababababababababababababababababababababababababababababab"
	is, err = parseBootc(
		[]byte(`{"status":{"booted":{"image":{"image":{"image":"r.example/os:1` + digest + `","transport":"registry"}}}}}`))
	if err != nil || is.booted != "r.example/os"+digest {
		t.Errorf("%+v, %v", is, err)
	}
}

func TestThePullSpecIsFoundInEveryFormOfAReference(t *testing.T) {
	for reference, want := range map[string]string{
		"ostree-unverified-registry:r.example:5000/os@sha256:1":      "r.example:5000/os@sha256:1",
		"ostree-unverified-image:docker://r.example/os:1":            "r.example/os:1",
		"ostree-unverified-image:registry:r.example/os:1":            "r.example/os:1",
		"ostree-image-signed:docker://r.example/os:1":                "r.example/os:1",
		"ostree-remote-registry:fedora:r.example/os:1":               "r.example/os:1",
		"ostree-remote-image:fedora:docker://r.example/os:1":         "r.example/os:1",
		"ostree-unverified-image:containers-storage:localhost/os":    "containers-storage:localhost/os",
		"ostree-unverified-image:oci-archive:/var/os.ociarchive:tag": "oci-archive:/var/os.ociarchive:tag",
		"r.example/os:1": "r.example/os:1",
		"ostree-unverified-registry:r.example/os:1@sha256:abababababababababababababababababababababababababababababababab": "r.example/os@sha256:abababababababababababababababababababababababababababababababab",
	} {
		if got := imageOf(reference); got != want {
			t.Errorf("%s is %q, want %q", reference, got, want)
		}
		if again := imageOf(referenceTo(want)); again != want {
			t.Errorf("%s is fetched as %q", want, again)
		}
	}
}

func TestWhoAMachineIs(t *testing.T) {
	for text, want := range map[string]release{
		"ID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\nVERSION_ID=\"4.16\"\nPRETTY_NAME=\"R\"\nRHEL_VERSION=9.4": {name: "R", coreOS: true, enterprise: true, major: "9"},
		"ID=rhel\nVARIANT_ID=coreos\nVERSION_ID='10.0'":                                                   {name: "rhel", coreOS: true, enterprise: true, major: "10"},
		"ID=centos\nVARIANT_ID=coreos\nVERSION_ID=9\nNAME=S":                                              {name: "S", coreOS: true, enterprise: true, major: "9"},
		"ID=fedora\nVARIANT_ID=coreos\nVERSION_ID=44":                                                     {name: "fedora", coreOS: true, major: "44"},
		"ID=fedora\nVARIANT_ID=iot":                                                                       {name: "fedora"},
		"ID=rhel\nVERSION_ID=9.6":                                                                         {name: "rhel", major: "9"},
		"":                                                                                                {name: "this machine"},
	} {
		if got := releaseOf(machine.ParseRelease(text)); got != want {
			t.Errorf("%q is %+v, want %+v", text, got, want)
		}
	}
}

// hang is what the fake program does when its script says so: it waits to be asked to stop.
func hang() int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGINT)
	os.Stdout.WriteString("ready\n") //nolint:errcheck // a fake
	<-asked
	os.Stderr.WriteString("error: Operation was cancelled\n") //nolint:errcheck // a fake
	return 1
}

func TestAProgramThatHangsIsAskedToStop(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(self, filepath.Join(dir, "rpm-ostree")), os.WriteFile(filepath.Join(dir, "script"),
		[]byte("-- hangs --\nyes\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	x := machine.Program{
		Path: filepath.Join(dir, "rpm-ostree"), Root: "/", Env: []string{fakeDir + "=" + dir},
		Wait: machine.Wait,
	}
	if _, err = x.Run(t.Context(), time.Second, "kargs", "--append=secret"); err == nil {
		t.Fatal("it ended well")
	}
	if want := "rpm-ostree kargs: it has not ended after 1s: error: Operation was cancelled"; err.Error() != want {
		t.Errorf("it says %q, want %q", err, want)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = x.Run(gone, time.Hour, "status", "--json"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of all: %v", err)
	}
	if err := x.RunRetrying(gone, func(error) bool { return true }, "rebase"); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of all, it goes on: %v", err)
	}
}
