package machineconfig

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/safetext"
)

// Remote is a file that machines download. The hash decides the contents, so two remote files with the same hash are
// equal, whatever their addresses are.
type Remote struct {
	// URL is the address.
	URL string
	// Hash is the hash of the contents in lower case: sha512-HEX or sha256-HEX. For compressed contents, it is the hash
	// after decompression, as in Ignition.
	Hash string
	// Gzip is true if the server sends the contents compressed with gzip.
	Gzip bool
}

// errNoHash is returned for an address without a hash.
var errNoHash = errors.New("its source has no hash, so the server of the address would decide what machines get: run " +
	"`bunsen hash FILE`, which downloads it and writes `verification: {hash: sha512-…}` here")

// IsRemote reports whether a resource has an address instead of contents.
func IsRemote(r ign.Resource) bool {
	return r.Source != nil && *r.Source != "" && !strings.HasPrefix(*r.Source, "data:")
}

// RemoteOf returns the remote file of a resource, and whether the resource is one. The error says why machines must not
// download it.
func RemoteOf(r ign.Resource) (Remote, bool, error) {
	if !IsRemote(r) {
		return Remote{}, false, nil
	}
	if err := CheckAddress(*r.Source); err != nil {
		return Remote{}, true, err
	}
	if u, err := url.Parse(*r.Source); err == nil && isStoreHost(u) {
		if err := checkStored(r); err != nil {
			return Remote{}, true, err
		}
	}
	if len(r.HTTPHeaders) > 0 {
		return Remote{}, true, errors.New("its source has httpHeaders, and everyone who reads rendered configs would " +
			"read them: remove them, and serve the contents without credentials")
	}
	if r.Verification.Hash == nil || *r.Verification.Hash == "" {
		return Remote{}, true, errNoHash
	}
	hash := strings.ToLower(*r.Verification.Hash)
	function, sum, _ := strings.Cut(hash, "-")
	raw, err := hex.DecodeString(sum)
	if size := map[string]int{"sha256": sha256.Size, "sha512": sha512.Size}[function]; err != nil || size == 0 ||
		len(raw) != size {
		return Remote{}, true, hashError{fmt.Errorf("verification hash %q is not sha512-HEX or sha256-HEX: run "+
			"`bunsen hash FILE`, which writes it", *r.Verification.Hash)}
	}
	switch compression := r.Compression; {
	case compression == nil || *compression == "":
		return Remote{URL: *r.Source, Hash: hash}, true, nil
	case *compression == "gzip":
		return Remote{URL: *r.Source, Hash: hash, Gzip: true}, true, nil
	default:
		return Remote{}, true, fmt.Errorf("compression %q is unknown: use gzip, or remove it", *compression)
	}
}

// CheckAddress returns why an address is not one from which machines may download a file.
func CheckAddress(source string) error {
	if safetext.HasHidden(source) {
		return fmt.Errorf("its source %s contains a hidden character: remove it", safetext.Quote(source))
	}
	if _, is, err := ArtifactOf(source); is {
		return err
	}
	u, err := url.Parse(source)
	switch {
	case err != nil:
		return errors.New("its source is not a URL: write an address that begins with https://")
	case u.Scheme != "https" && u.Scheme != "http":
		return fmt.Errorf("its source has the scheme %q, and machines download from https://, http:// and oci:// "+
			"only. Serve the file there, or put it into the repository and name it with Butane's `local:`", u.Scheme)
	case u.Hostname() == "":
		return errors.New("its source names no server: write an address like https://example.com/file")
	case u.User != nil:
		return errors.New("its source contains a user name or a password, and everyone who reads rendered configs " +
			"would read them. Remove them, and serve the contents without credentials")
	}
	return nil
}

// ShownAddress returns an address for messages. A query may contain a token, so the text leaves it out, and also a user
// and a password.
func ShownAddress(address string) string {
	if hash, ok := StoredHash(address); ok {
		return shownStored(hash)
	}
	u, err := url.Parse(address)
	if err != nil {
		return "an invalid address"
	}
	if name, is := strings.CutPrefix(address, artifactPrefix); is {
		return safetext.Line(ArtifactScheme + name)
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	text := safetext.Line(shown.String())
	if u.RawQuery != "" {
		text += "?…"
	}
	return text
}

// RemoteFile is a file of a config whose contents machines download.
type RemoteFile struct {
	// Path on the machine.
	Path string
	Remote
}

// RemoteFiles returns the files of a config whose contents machines download, in the order of the flat config.
func RemoteFiles(c Config) (all []RemoteFile) {
	for _, f := range Flattened(c).Ignition.Storage.Files {
		if r, remote, err := RemoteOf(f.Contents); remote && err == nil {
			all = append(all, RemoteFile{f.Path, r})
		}
	}
	return all
}

// WithHashes returns the flat form of a config in which other hashes of the same contents replace the hashes of remote
// files. A hash that the map does not contain stays. WithHashes does not change the config of the caller.
func WithHashes(c Config, hashes map[string]string) Config {
	if len(hashes) == 0 || len(RemoteFiles(c)) == 0 {
		return c
	}
	c = Flattened(c)
	c.Ignition.Storage.Files = slices.Clone(c.Ignition.Storage.Files)
	for i, f := range c.Ignition.Storage.Files {
		r, remote, err := RemoteOf(f.Contents)
		if other := hashes[r.Hash]; remote && err == nil && other != "" {
			c.Ignition.Storage.Files[i].Contents.Verification.Hash = &other
		}
	}
	return c
}

// SameContents reports whether two resources have the same contents, however they are encoded. SameContents compares
// remote contents by their hash.
func SameContents(a, b ign.Resource) bool {
	x, remoteA, errA := RemoteOf(a)
	y, remoteB, errB := RemoteOf(b)
	switch {
	case errA != nil || errB != nil:
		return false
	case remoteA && remoteB:
		return x.Hash == y.Hash
	case remoteA:
		return hasHash(b, x.Hash)
	case remoteB:
		return hasHash(a, y.Hash)
	}
	one, errA := Contents(a)
	other, errB := Contents(b)
	return errA == nil && errB == nil && string(one) == string(other)
}

// hasHash reports whether contents in a config have a hash.
func hasHash(r ign.Resource, hash string) bool {
	data, err := Contents(r)
	return err == nil && verify(ign.Resource{Verification: ign.Verification{Hash: &hash}}, data) == nil
}
