package download

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Layer is the file of an artifact.
type Layer struct {
	// of the bytes in the registry
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// digestForm matches the digests of layers.
var digestForm = regexp.MustCompile(`^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$`)

// LayerOf returns the only layer of a manifest. The error says why the manifest is none of a file.
func LayerOf(manifest []byte) (Layer, error) {
	var is struct {
		Layers    []Layer           `json:"layers"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	if json.Unmarshal(manifest, &is) != nil {
		return Layer{}, errors.New("the registry sends a manifest that is not JSON")
	}
	switch {
	case len(is.Manifests) > 0:
		return Layer{}, errors.New("the digest names an index of several manifests: name the digest of the manifest " +
			"for the machines' platform")
	case len(is.Layers) != 1:
		return Layer{}, fmt.Errorf("the artifact has %d layers, and a file is the only layer of its artifact: push "+
			"the file alone, for example with `oras push`", len(is.Layers))
	case !digestForm.MatchString(is.Layers[0].Digest):
		return Layer{}, errors.New("the digest of the layer is not sha256:HEX or sha512:HEX")
	}
	return is.Layers[0], nil
}

// Challenge is what a registry demands from an anonymous request.
type Challenge struct {
	// in lower case
	Scheme string
	// by their names in lower case
	Parameters map[string]string
}

var challengeParameter = regexp.MustCompile(`([a-zA-Z_]+)=(?:"([^"]*)"|([^\s,"]+))`)

// ParseChallenge reads a header like `Bearer realm="https://…",service="…"`.
func ParseChallenge(header string) Challenge {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	c := Challenge{strings.ToLower(scheme), map[string]string{}}
	for _, m := range challengeParameter.FindAllStringSubmatch(rest, -1) {
		c.Parameters[strings.ToLower(m[1])] = m[2] + m[3]
	}
	return c
}

// TokenURL returns the address that gives a token to read a repository.
func (c Challenge) TokenURL(repository string) (*url.URL, error) {
	realm, err := url.Parse(c.Parameters["realm"])
	if err != nil || realm.Scheme != "https" || realm.Host == "" || realm.User != nil {
		return nil, errors.New("the registry names a token service without https")
	}
	query := realm.Query()
	if service := c.Parameters["service"]; service != "" {
		query.Set("service", service)
	}
	query.Set("scope", "repository:"+repository+":pull")
	realm.RawQuery = query.Encode()
	return realm, nil
}

// ReadToken reads the answer of a token service.
func ReadToken(answer io.Reader) (string, error) {
	var is struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if json.NewDecoder(answer).Decode(&is) != nil || is.Token == "" && is.AccessToken == "" {
		return "", errors.New("the answer has no token")
	}
	if is.Token != "" {
		return is.Token, nil
	}
	return is.AccessToken, nil
}

// ArtifactAnswer is the head of a server's answer with a file.
type ArtifactAnswer struct {
	Status int
	// -1 if unknown
	Length int64
	// Content-Range, and a strong ETag or Last-Modified
	Range, Validator string
	// the layer of an artifact that the body is from; zero for any other file
	Layer Layer
}

// Logins are credentials by registry, or by registry and the beginning of a repository: USER:PASSWORD.
type Logins map[string]string

// ParseLogins reads credentials as container tools and kubelets write them: {"auths": {"HOST": {"auth": "…"}}}. The
// error quotes nothing of them.
func ParseLogins(text []byte) (Logins, error) {
	var file struct {
		Auths map[string]struct {
			Auth     string `json:"auth"`
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"auths"`
	}
	if json.Unmarshal(text, &file) != nil {
		return nil, errors.New("the file of credentials is not JSON")
	}
	out := Logins{}
	for at, l := range file.Auths {
		login := l.Username + ":" + l.Password
		if l.Auth != "" {
			raw, err := base64.StdEncoding.DecodeString(l.Auth)
			if err != nil {
				continue // Other registries may have valid credentials.
			}
			login = string(raw)
		}
		at = strings.TrimPrefix(strings.TrimPrefix(at, "https://"), "http://")
		at = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(at, "/"), "/v1"), "/v2")
		if at == "index.docker.io" {
			at = "docker.io"
		}
		out[at] = login
	}
	return out, nil
}

// Find returns the credentials for an artifact: those of the longest matching name, as kubelets choose them.
func (l Logins) Find(a machineconfig.Artifact) (user, password string) {
	for at := a.Registry + "/" + a.Repository; at != ""; {
		if login, known := l[at]; known {
			user, password, _ = strings.Cut(login, ":")
			return user, password
		}
		end := strings.LastIndex(at, "/")
		if end < 0 {
			break
		}
		at = at[:end]
	}
	return "", ""
}

// BasicLogin returns the header of a user and a password.
func BasicLogin(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}
