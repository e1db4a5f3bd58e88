package download

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/safetext"
)

// RegistryAnswer is the answer to a request.
type RegistryAnswer struct {
	Status int
	// -1 if unknown
	Length int64
	// by canonical names
	Header map[string][]string
	// the layer of an artifact that the body is from; zero for any other answer
	Layer Layer
	// the place of an artifact with several that sends the body; empty for any other answer
	From string
	Body io.ReadCloser
}

// RegistryClient sends requests.
type RegistryClient interface {
	// Send requests an address. It follows redirects, and sends an Authorization header to no other host.
	Send(ctx context.Context, address string, headers map[string]string) (RegistryAnswer, error)
}

// RegistryReader reads files from registries.
type RegistryReader struct {
	Client RegistryClient
	// nil for none
	Logins  Logins
	Mirrors Mirrors
	// nil for none
	Failures *PlaceFailures
}

// Those that mean something of their own here.
const (
	ok           = 200
	partial      = 206
	unauthorized = 401
	forbidden    = 403
	notFound     = 404
	noRange      = 416
)

// What a registry sends besides the file.
const (
	maxManifest = 4 << 20
	maxToken    = 1 << 20
)

// manifestTypes: the manifests that have layers, and the lists that are refused with a message of their own
const manifestTypes = "application/vnd.oci.image.manifest.v1+json, " +
	"application/vnd.docker.distribution.manifest.v2+json, application/vnd.oci.image.index.v1+json"

// imageTypes have the list of Docker: otherwise a registry would choose a platform, and its digest would be that of
// this platform.
const imageTypes = manifestTypes + ", application/vnd.docker.distribution.manifest.list.v2+json"

// StatusError is an answer of a registry that is no success.
type StatusError struct {
	Status int
	What   string
}

// Error says what to do.
func (e *StatusError) Error() string {
	switch e.Status {
	case notFound:
		return fmt.Sprintf("the registry has no %s, or hides it from these credentials (404)", e.What)
	case unauthorized, forbidden:
		return fmt.Sprintf("the registry refuses the %s (%d): make the repository public, or add its credentials to "+
			"the nodes' pull secret and to the server's --registry-credentials", e.What, e.Status)
	}
	return fmt.Sprintf("the registry answers %d for the %s", e.Status, e.What)
}

type session struct {
	RegistryReader
	at            machineconfig.Artifact
	authorization string
}

// Open requests the file of an artifact from its mirrors and its registry, with headers such as Range. The caller
// closes the body. The manifest has the digest of the artifact, but the bytes of the file are not verified.
func (r RegistryReader) Open(ctx context.Context, a machineconfig.Artifact, headers map[string]string) (RegistryAnswer,
	error,
) {
	return anywhere(ctx, r, a, func(at machineconfig.Artifact, isOne bool) (RegistryAnswer, error) {
		answer, err := r.open(ctx, at, headers)
		if err != nil || isOne {
			return answer, err
		}
		switch answer.Status {
		case ok, partial, noRange:
			answer.From = PlaceOf(at)
			return answer, nil
		}
		return RegistryAnswer{}, errors.Join(&StatusError{answer.Status, "file"}, answer.Body.Close())
	})
}

// open uses the registry alone.
func (r RegistryReader) open(ctx context.Context, a machineconfig.Artifact, headers map[string]string) (RegistryAnswer,
	error,
) {
	s := session{RegistryReader: r, at: a}
	raw, err := s.manifest(ctx, a.Digest, manifestTypes)
	if err != nil {
		return RegistryAnswer{}, err
	}
	layer, err := LayerOf(raw)
	if err != nil {
		return RegistryAnswer{}, err
	}
	headers = maps.Clone(headers)
	// Some registries refuse a range without an end.
	if rest, is := strings.CutSuffix(headers["Range"], "-"); is && layer.Size > 0 {
		headers["Range"] = fmt.Sprintf("%s-%d", rest, layer.Size-1)
	}
	answer, err := s.get(ctx, "blobs/"+layer.Digest, headers)
	answer.Layer = layer
	return answer, err
}

// Resolve returns the artifact with the digest that its tag, by default latest, names now.
func (r RegistryReader) Resolve(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	a.Digest = ""
	return r.resolve(ctx, a, manifestTypes, func(manifest []byte) error {
		_, err := LayerOf(manifest)
		return err
	})
}

// ResolveImage returns an image with the digest that its tag, by default latest, names now: that of the index, for
// several platforms. An image with only a digest keeps it, if the registry has it.
func (r RegistryReader) ResolveImage(ctx context.Context, a machineconfig.Artifact) (machineconfig.Artifact, error) {
	if a.Tag != "" {
		a.Digest = ""
	}
	return r.resolve(ctx, a, imageTypes, func([]byte) error { return nil })
}

// resolve needs a manifest of one of the types that passes the check.
func (r RegistryReader) resolve(ctx context.Context, a machineconfig.Artifact, types string,
	check func(manifest []byte) error,
) (machineconfig.Artifact, error) {
	digest, err := anywhere(ctx, r, a, func(at machineconfig.Artifact, _ bool) (string, error) {
		s := session{RegistryReader: r, at: at}
		raw, err := s.manifest(ctx, cmp.Or(at.Digest, at.Tag, "latest"), types)
		if err == nil {
			err = check(raw)
		}
		return fmt.Sprintf("sha256:%x", sha256.Sum256(raw)), err
	})
	if err != nil {
		return a, err
	}
	a.Digest = digest
	return a, nil
}

// manifest returns a manifest of some types by its tag or digest, which it verifies.
func (s *session) manifest(ctx context.Context, reference, types string) ([]byte, error) {
	answer, err := s.get(ctx, "manifests/"+reference, map[string]string{"Accept": types})
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.Status != ok {
		return nil, &StatusError{answer.Status, "artifact"}
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxManifest+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the manifest: %w", err)
	case len(raw) > maxManifest:
		return nil, fmt.Errorf("the manifest has more than %d bytes", maxManifest)
	case strings.HasPrefix(reference, "sha256:") && fmt.Sprintf("sha256:%x", sha256.Sum256(raw)) != reference:
		return nil, errors.New("the registry sends another manifest than the digest names")
	}
	return raw, nil
}

// get uses a token if the registry demands one.
func (s *session) get(ctx context.Context, part string, headers map[string]string) (RegistryAnswer, error) {
	answer, err := s.try(ctx, part, headers)
	if err != nil || answer.Status != unauthorized || s.authorization != "" {
		return answer, err
	}
	challenge := strings.Join(answer.Header["Www-Authenticate"], " ")
	if err := answer.Body.Close(); err != nil {
		return RegistryAnswer{}, err
	}
	if s.authorization, err = s.authorize(ctx, challenge); err != nil {
		return RegistryAnswer{}, err
	}
	return s.try(ctx, part, headers)
}

func (s *session) try(ctx context.Context, part string, headers map[string]string) (RegistryAnswer, error) {
	address := url.URL{Scheme: "https", Host: hostOf(s.at.Registry), Path: "/v2/" + s.at.Repository + "/" + part}
	if s.authorization != "" {
		headers = maps.Clone(headers)
		if headers == nil {
			headers = map[string]string{}
		}
		headers["Authorization"] = s.authorization
	}
	return s.Client.Send(ctx, address.String(), headers)
}

func hostOf(registry string) string {
	if registry == "docker.io" {
		return "registry-1.docker.io"
	}
	return registry
}

// authorize returns the header that answers a challenge: with the credentials for the repository, or with a token,
// which many registries give to everybody.
func (s *session) authorize(ctx context.Context, challenge string) (string, error) {
	user, password := s.Logins.Find(s.at)
	c := ParseChallenge(challenge)
	switch {
	case c.Scheme == "basic" && user != "":
		return BasicLogin(user, password), nil
	case c.Scheme != "bearer":
		return "", &StatusError{unauthorized, "artifact"}
	}
	address, err := c.TokenURL(s.at.Repository)
	if err != nil {
		return "", err
	}
	headers := map[string]string{}
	if user != "" {
		headers["Authorization"] = BasicLogin(user, password)
	}
	answer, err := s.Client.Send(ctx, address.String(), headers)
	if err != nil {
		return "", fmt.Errorf("requesting a token from %s: %w", safetext.Line(address.Host), err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.Status != ok {
		return "", &StatusError{answer.Status, "token"}
	}
	token, err := ReadToken(io.LimitReader(answer.Body, maxToken))
	if err != nil {
		return "", fmt.Errorf("requesting a token from %s: %w", safetext.Line(address.Host), err)
	}
	return "Bearer " + token, nil
}

// ReadMirrors reads the mirrors of registries in a file of this machine, and in the files of the directory beside it.
func ReadMirrors(conf string) Mirrors {
	return LoadMirrors(conf, os.ReadFile, func(dir string) (names []string, _ error) {
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return names, err
	})
}
