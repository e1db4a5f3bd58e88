package download

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
)

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
