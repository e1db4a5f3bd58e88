package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// signedRelease writes a release with two archives and the image for jobs, as make release does.
func signedRelease(t *testing.T, keyFile string) (out string) {
	t.Helper()
	out = t.TempDir()
	for name, text := range map[string]string{
		"bunsen-v1.2.3-linux-amd64.tar.gz": "1", "bunsen-v1.2.3-darwin-arm64.tar.gz": "2",
		"bunsen-v1.2.3-windows-amd64.zip": "3", "bunsen-programs-v1.2.3-linux-amd64.tar.gz": "4",
		"images.json": `{"bunsen-ci": "` + jobsImage + `"}`,
	} {
		write(t, filepath.Join(out, name), text)
	}
	if err := writeSums(out, keyFile); err != nil {
		t.Fatal(err)
	}
	return out
}

var jobsImage = "registry.example.com/bunsen/bunsen-ci@sha256:" + strings.Repeat("ab", 32)

// pinnedTree copies the files of the repository that have pins.
func pinnedTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range append([]string{pinsFile}, ciPinned...) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(text))
	}
	return dir
}

// TestThePins writes what jobs run of a release into all files that name it.
func TestThePins(t *testing.T) {
	keyFile, _ := newKey(t)
	out, dir := signedRelease(t, keyFile), pinnedTree(t)
	o := buildOptions{Root: dir, Out: out, Key: keyFile, Version: "v1.2.3"}
	for _, again := range []bool{false, true} {
		if again { // The key of earlier releases is in the repository.
			o.Key = ""
		}
		if err := writePins(o); err != nil {
			t.Fatal(err)
		}
		for _, name := range ciPinned {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil || strings.Count(string(text), jobsImage) != 1 || strings.Contains(string(text), noDigest) {
				t.Errorf("%s: %v\n%s", name, err, text)
			}
		}
		pins, err := os.ReadFile(filepath.Join(dir, pinsFile))
		want := pinsHead + "from https://github.com/bunsen-os/bunsen/releases/download/v1.2.3\n" +
			"d4735e3a265e16eee03f59718b9b5d03019c07d8b6c51f90da3a666eec13ab35  bunsen-v1.2.3-darwin-arm64.tar.gz\n" +
			"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b  bunsen-v1.2.3-linux-amd64.tar.gz\n"
		if err != nil || string(pins) != want {
			t.Errorf("%v\n%s\nwant\n%s", err, pins, want)
		}
	}
}

// TestPinsThatWouldBeWrong makes a release that jobs must not run. Nothing of it is pinned.
func TestPinsThatWouldBeWrong(t *testing.T) {
	keyFile, _ := newKey(t)
	otherFile, _ := newKey(t)
	images := func(text string) func(*testing.T, *buildOptions) {
		return func(t *testing.T, o *buildOptions) {
			write(t, filepath.Join(o.Out, "images.json"), text)
			if err := writeSums(o.Out, o.Key); err != nil {
				t.Fatal(err)
			}
		}
	}
	for sentence, test := range map[string]struct {
		change func(*testing.T, *buildOptions)
		want   string
	}{
		"no image for jobs":         {images(`{}`), "has no bunsen-ci: build the release with CI_IMAGE=1"},
		"an image that is nowhere":  {images(`{"bunsen-ci": "image.invalid/bunsen-ci@sha256:` + strings.Repeat("ab", 32) + `"}`), "names no registry"},
		"an image without a digest": {images(`{"bunsen-ci": "registry.example.com/bunsen-ci:v1.2.3"}`), "has no digest"},
		"an image that nobody signed": {func(t *testing.T, o *buildOptions) {
			write(t, filepath.Join(o.Out, "images.json"), `{"bunsen-ci": "`+jobsImage+`", "x": ""}`)
		}, "images.json is not the one of SHA256SUMS"},
		"no images.json": {func(t *testing.T, o *buildOptions) {
			if err := os.Remove(filepath.Join(o.Out, "images.json")); err != nil {
				t.Fatal(err)
			}
		}, "reading the images of the release"},
		"checksums that were changed": {func(t *testing.T, o *buildOptions) {
			sum := strings.Repeat("cd", 32)
			write(t, filepath.Join(o.Out, "SHA256SUMS"), sum+"  bunsen-v1.2.3-linux-amd64.tar.gz\n")
		}, "is not the signature of SHA256SUMS by the key of the release"},
		"another key": {func(_ *testing.T, o *buildOptions) { o.Key = otherFile }, "is not the signature"},
		"an earlier key, and the release is of a new one": {func(t *testing.T, o *buildOptions) {
			o.Key = ""
			earlier := *o
			earlier.Key, earlier.Out = otherFile, signedRelease(t, otherFile)
			if err := writePins(earlier); err != nil {
				t.Fatal(err)
			}
		}, "is not the signature"},
		"no key": {func(_ *testing.T, o *buildOptions) { o.Key = "" }, "name the key, SIGNING_KEY=FILE"},
		"no signature": {func(t *testing.T, o *buildOptions) {
			if err := os.Remove(filepath.Join(o.Out, "SHA256SUMS.sig")); err != nil {
				t.Fatal(err)
			}
		}, "the release is not signed"},
		"a key that macOS cannot check": {func(t *testing.T, o *buildOptions) {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			der, err := x509.MarshalPKCS8PrivateKey(key)
			if err != nil {
				t.Fatal(err)
			}
			o.Key = filepath.Join(t.TempDir(), "key.pem")
			write(t, o.Key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
			if err := writeSums(o.Out, o.Key); err != nil {
				t.Fatal(err)
			}
		}, "the key of the release is no ECDSA key"},
		"another version":           {func(_ *testing.T, o *buildOptions) { o.Version = "v1.2.4" }, "it is of the version v1.2.3, and not v1.2.4"},
		"a commit that has no tag":  {func(_ *testing.T, o *buildOptions) { o.Version = "v1.2.3-4-gabcdef0" }, "is not the version of a release"},
		"a place that is not https": {func(_ *testing.T, o *buildOptions) { o.Downloads = "http://example.com" }, "name an https URL with DOWNLOADS"},
	} {
		t.Run(sentence, func(t *testing.T) {
			o := buildOptions{Root: pinnedTree(t), Out: signedRelease(t, keyFile), Key: keyFile, Version: "v1.2.3"}
			test.change(t, &o)
			before, err := os.ReadFile(filepath.Join(o.Root, pinsFile))
			if err != nil {
				t.Fatal(err)
			}
			if err := writePins(o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("writing the pins: %v; want an error with %q", err, test.want)
			}
			after, err := os.ReadFile(filepath.Join(o.Root, pinsFile))
			if err != nil || string(after) != string(before) {
				t.Errorf("the pins are %s, %v", after, err)
			}
		})
	}
}

// TestATagPinsItsOwnVersion goes through the steps of a release in a repository, and through those that would let users
// of the tag run another version.
func TestATagPinsItsOwnVersion(t *testing.T) {
	dir := pinnedTree(t)
	keyFile, _ := newKey(t)
	git := func(args ...string) {
		t.Helper()
		output(t, "git", append([]string{"-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.org"}, args...)...)
	}
	commit := func() {
		t.Helper()
		git("add", "-A")
		git("commit", "-q", "--allow-empty", "-m", "x")
	}
	git("init", "-q", ".")
	commit()
	write(t, filepath.Join(dir, "CHANGELOG.md"), "1.2.3\n")
	commit()
	git("tag", "built")
	if err := writePins(buildOptions{
		Root: dir, Out: signedRelease(t, keyFile), Key: keyFile, Version: "v1.2.3",
	}); err != nil {
		t.Fatal(err)
	}
	commit()
	git("tag", "pinned")
	commit()
	write(t, filepath.Join(dir, "CHANGELOG.md"), "1.2.4\n")
	commit()
	git("tag", "later")
	git("reset", "-q", "--hard", "pinned")
	git("reset", "-q", "--soft", "built")
	write(t, filepath.Join(dir, "CHANGELOG.md"), "1.2.3, and more\n")
	commit()
	git("tag", "more")
	git("checkout", "-q", "pinned")
	git("checkout", "-q", "built", "--", "templates")
	commit()
	git("tag", "half")
	for sentence, test := range map[string]struct{ revision, version, want string }{
		"the commit of the pins":                   {"pinned", "v1.2.3", ""},
		"the commit that was built":                {"built", "v1.2.3", "it has no archive of a release"},
		"a later commit, of the next version":      {"later", "v1.2.4", "it is of the version v1.2.3, and not v1.2.4"},
		"a later commit":                           {"later", "v1.2.3", "later changes CHANGELOG.md beside the pins"},
		"a commit of the pins and something else":  {"more", "v1.2.3", "more changes CHANGELOG.md beside the pins"},
		"a commit without the digest of the image": {"half", "v1.2.3", "it pins no image: run make pins"},
		"no version":                               {"pinned", "dev", "is not the version of a release"},
	} {
		err := checkTag(t.Context(), dir, test.revision, test.version)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("a tag for %s: %v, want %q", sentence, err, test.want)
		}
	}
	git("checkout", "-q", "pinned")
	if err := run(t.Context(), []string{"tag", "-root", dir, "-version", "v1.2.3"}); err != nil {
		t.Error(err)
	}
}

// TestTheTagsOfThisRepository refuses one that jobs would take for another version.
func TestTheTagsOfThisRepository(t *testing.T) {
	for _, tag := range strings.Fields(output(t, "git", "-C", root, "tag", "--list", "v[0-9]*")) {
		if err := checkTag(t.Context(), root, tag, tag); err != nil {
			t.Error(err)
		}
	}
}

// TestAReleaseIsACommit builds a version in a repository with a file that is in no commit.
func TestAReleaseIsACommit(t *testing.T) {
	dir := t.TempDir()
	output(t, "git", "init", "-q", dir)
	output(t, "git", "-C", dir, "-c", "user.name=x", "-c", "user.email=x@example.org", "commit", "-q", "--allow-empty", "-m",
		"x")
	for version, refused := range map[string]bool{"v1.2.3": true, "v1.2.3-dirty": false} {
		o := buildOptions{Root: dir, Version: version}
		if _, err := o.commit(t.Context()); err != nil {
			t.Error(err)
		}
		write(t, filepath.Join(dir, "new.go"), "package x\n")
		if _, err := o.commit(t.Context()); (err != nil) != refused {
			t.Errorf("%s: %v", version, err)
		}
		if err := os.Remove(filepath.Join(dir, "new.go")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTheActionReadsWhatIsPinned compares the pattern with which the action finds its pin with the one that writes it.
func TestTheActionReadsWhatIsPinned(t *testing.T) {
	script, err := os.ReadFile(filepath.Join(root, "action", "install.sh"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(script), `pin=$(grep -E "`)
	pattern, _, found := strings.Cut(rest, `" "$here/pins"`)
	pattern = strings.NewReplacer("$os", "(linux|darwin)", "$arch", "(amd64|arm64)").Replace(pattern)
	if !found || pattern != pinned.String() {
		t.Errorf("action/install.sh finds\n%s\nand make pins writes\n%s", pattern, pinned)
	}
	if _, err := exec.LookPath("grep"); err != nil {
		t.Skip("this machine has no grep")
	}
	sum := strings.Repeat("0a", 32) + "  "
	for line, want := range map[string]bool{
		sum + "bunsen-v1.2.3-linux-amd64.tar.gz": true, sum + "bunsen-v1.2.3-rc.1-darwin-arm64.tar.gz": true,
		sum + "bunsen-v1.2.3-4-gabcdef0-linux-amd64.tar.gz": false, sum + "bunsen-1.2.3-linux-amd64.tar.gz": false,
		sum + "bunsen-v1.2.3-windows-amd64.zip": false, sum + "bunsen-v1.2-linux-amd64.tar.gz": false,
		sum + "bunsen-programs-v1.2.3-linux-amd64.tar.gz": false, "x" + sum + "bunsen-v1.2.3-linux-amd64.tar.gz": false,
	} {
		grep := exec.Command("grep", "-qE", pattern)
		grep.Stdin = strings.NewReader(line + "\n")
		if got := grep.Run() == nil; got != want || pinned.MatchString(line) != want {
			t.Errorf("%s: grep %t, make pins %t, want %t", line, got, pinned.MatchString(line), want)
		}
	}
}
