package tokens

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/access"
)

// The keys of a Secret that describes a GitHub App. Flux uses the same names.
const (
	appKey          = "githubAppID"
	installationKey = "githubAppInstallationID"
	privateKey      = "githubAppPrivateKey"
	baseKey         = "githubAppBaseURL"
)

// GitHubAppKeys lists the keys of a Secret that describe a GitHub App.
func GitHubAppKeys() []string { return []string{baseKey, appKey, installationKey, privateKey} }

// DescribesGitHubApp reports whether a Secret has a key of a GitHub App.
func DescribesGitHubApp(secret map[string][]byte) bool {
	for _, key := range GitHubAppKeys() {
		if _, ok := secret[key]; ok {
			return true
		}
	}
	return false
}

// GitHubApp is one installation of a GitHub App. The tokens of an App read the repositories of that installation.
type GitHubApp struct {
	id, installation string
	key              *rsa.PrivateKey
	// api is the root of the API, without a slash at the end.
	api    string
	client *http.Client
	// digest identifies the app and everything that decides about its tokens.
	digest string
}

var (
	appID          = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`) // appID matches a number, or a client ID.
	installationID = regexp.MustCompile(`^[0-9]{1,20}$`)
)

// ParseGitHubApp reads the app that a Secret describes, for the repository at an address. The app sends its requests
// through client, which must not follow redirects. An error says which key is wrong.
func ParseGitHubApp(secret map[string][]byte, at source.Address, client *http.Client) (*GitHubApp, error) {
	value := func(key string) string { return strings.TrimSpace(string(secret[key])) }
	a := &GitHubApp{id: value(appKey), installation: value(installationKey), client: client}
	for _, key := range []string{appKey, installationKey, privateKey} {
		if value(key) == "" {
			return nil, fmt.Errorf("the Secret describes a GitHub App without %s: add it", key)
		}
	}
	for _, key := range []string{"username", "password", "bearerToken"} {
		if value(key) != "" {
			return nil, fmt.Errorf("the Secret holds both a GitHub App and %s: keep one of them", key)
		}
	}
	switch {
	case at.Scheme != "https":
		return nil, errors.New("the tokens of a GitHub App are for https only: write https:// in the URL")
	case !appID.MatchString(a.id):
		return nil, fmt.Errorf("%s of the Secret is not an App ID: copy the number, or the client ID, from the "+
			"settings of the app", appKey)
	case !installationID.MatchString(a.installation):
		return nil, fmt.Errorf("%s of the Secret is not a number: copy it from the address of the installation, "+
			".../installations/NUMBER", installationKey)
	}
	var err error
	if a.key, err = parseKey(secret[privateKey]); err != nil {
		return nil, err
	}
	if a.api, err = apiOf(value(baseKey), at, secret); err != nil {
		return nil, err
	}
	a.digest = digestOf(a.api, a.id, a.installation, string(secret[privateKey]), string(secret["ca.crt"]))
	return a, nil
}

// parseKey reads an RSA key in PEM, PKCS #1 or PKCS #8. The errors of parseKey contain no part of the key.
func parseKey(raw []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s of the Secret is not a key in PEM: download a key from the settings of the app",
			privateKey)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		rsaKey, ok := other.(*rsa.PrivateKey)
		if err != nil || !ok {
			return nil, fmt.Errorf("%s of the Secret is not an RSA key: download a key from the settings of the app",
				privateKey)
		}
		key = rsaKey
	}
	if key.N.BitLen() < 2048 {
		return nil, fmt.Errorf("%s of the Secret has %d bits, at least 2048: create another key in the settings of "+
			"the app", privateKey, key.N.BitLen())
	}
	return key, nil
}

// apiOf returns the root URL of the API: the root that the Secret names, otherwise the root on the git host. A root in
// the Secret must equal the root on the git host, or be on a host that the Secret lists in hosts.
func apiOf(base string, at source.Address, secret map[string][]byte) (string, error) {
	own := "https://" + access.Endpoint(at) + "/api/v3"
	switch host := strings.ToLower(at.Host); {
	case host == "github.com":
		own = "https://api.github.com"
	case strings.HasSuffix(host, ".ghe.com"):
		own = "https://api." + host
	}
	if base == "" {
		return own, nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		strings.Contains(u.Path, "..") {
		return "", fmt.Errorf("%s of the Secret is not the address of an API: write https://HOST/api/v3", baseKey)
	}
	clean := "https://" + u.Host + strings.TrimRight(u.EscapedPath(), "/")
	if strings.EqualFold(clean, own) {
		return own, nil
	}
	api := source.Address{Scheme: "https", Host: u.Hostname(), Port: u.Port()}
	if !access.RecipientsOf(at, secret).Allow(api) {
		return "", fmt.Errorf("%s leads to %s, which the key hosts of the Secret does not name: correct it, or add "+
			"the host",
			baseKey, access.Endpoint(api))
	}
	return clean, nil
}

func digestOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// The start and end of a JWT's validity. GitHub accepts a validity of at most ten minutes, and refuses a start in the
// future. So the time at which a token becomes valid is in the past.
const (
	clockSkew   = time.Minute
	jwtLifetime = 10 * time.Minute
)

// jwt returns a JSON Web Token (RFC 7519) by which the app authenticates. The token expires ten minutes after its
// start.
func (a *GitHubApp) jwt(now time.Time) (string, error) {
	start := now.Add(-clockSkew)
	claims, err := json.Marshal(struct {
		IssuedAt int64  `json:"iat"`
		Expires  int64  `json:"exp"`
		Issuer   string `json:"iss"`
	}{start.Unix(), start.Add(jwtLifetime).Unix(), a.id})
	if err != nil {
		return "", fmt.Errorf("writing the app's token: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("signing the app's token: %w", err)
	}
	return text + "." + encode(signature), nil
}
