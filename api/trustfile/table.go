package trustfile

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// Paths on nodes, those of OpenShift's machine-config-operator.
const (
	UserCAPath    = "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt"
	KubeletCAPath = "/etc/kubernetes/kubelet-ca.crt"
	CloudCAPath   = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
	// PullSecretPath has the credentials with which the kubelet pulls images. Only root may read it.
	PullSecretPath = "/var/lib/kubelet/config.json" //nolint:gosec // a path
)

// Directories with a directory for each registry, HOST or HOST:PORT. The server names the first one. The daemon decides
// whether the node needs the certificates in the other ones.
const (
	RegistriesDir           = "/etc/docker/certs.d"
	ContainersRegistriesDir = "/etc/containers/certs.d"
	ContainerdRegistriesDir = "/etc/containerd/certs.d"
)

// RegistryFile is the name of a registry's certificates in its directory.
const RegistryFile = "ca.crt"

// Limits of an answer of the server.
const (
	MaxBytes      = 512 << 10
	MaxTotalBytes = 8 << 20
	MaxFiles      = 4000
)

// Registry returns the registry of a path below RegistriesDir, HOST or HOST:PORT.
func Registry(at string) (registry string, is bool) {
	dir := path.Dir(at)
	registry = path.Base(dir)
	return registry, path.Base(at) == RegistryFile && path.Dir(dir) == RegistriesDir && path.Clean(at) == at &&
		ValidRegistry(registry)
}

// validHost matches a DNS name in lower case.
var validHost = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)

// ValidRegistry reports whether a text is HOST or HOST:PORT, with a DNS name in lower case or an IPv4 address.
func ValidRegistry(registry string) bool {
	host, port, hasPort := strings.Cut(registry, ":")
	_, err := netip.ParseAddr(host)
	if len(host) > 253 || !validHost.MatchString(host) && err != nil {
		return false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	return !hasPort || err == nil && number != 0 && strconv.FormatUint(number, 10) == port
}

// Check returns an error if the server may not send this file. The error contains no contents.
func Check(f v1alpha1.TrustFile) error {
	mode, secret := 0o644, false
	switch _, isRegistry := Registry(f.Path); {
	case f.Path == PullSecretPath:
		mode, secret = 0o600, true
	case f.Path != UserCAPath && f.Path != KubeletCAPath && f.Path != CloudCAPath && !isRegistry:
		return fmt.Errorf("%q is not a path of a trust file", f.Path)
	}
	switch {
	case f.Mode != mode || f.Secret != secret:
		return fmt.Errorf("%s: its mode is %04o and not %04o", f.Path, f.Mode, mode)
	case len(f.Contents) > MaxBytes:
		return fmt.Errorf("%s: it is longer than %d KiB", f.Path, MaxBytes>>10)
	}
	var err error
	if secret {
		err = CheckPullSecret(f.Contents)
	} else {
		_, err = Certificates([]byte(f.Contents))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path, err)
	}
	return nil
}

// errNoPullSecret describes a valid pull secret.
var errNoPullSecret = errors.New(
	`it is not a pull secret: the value must be JSON, {"auths": {"registry.example.com": {"auth": "BASE64 OF USER:PASSWORD"}}}`)

// CheckPullSecret returns an error if a text is not the JSON of a Secret of the type kubernetes.io/dockerconfigjson
// with at least one registry. The error contains no part of the text, because registries are named like URLs, which may
// have credentials.
func CheckPullSecret(text string) error {
	var all struct {
		Auths map[string]struct {
			Auth          string `json:"auth"`
			Username      string `json:"username"`
			Password      string `json:"password"`
			IdentityToken string `json:"identitytoken"`
			RegistryToken string `json:"registrytoken"`
		} `json:"auths"`
	}
	if json.Unmarshal([]byte(text), &all) != nil || len(all.Auths) == 0 {
		return errNoPullSecret
	}
	for _, c := range all.Auths {
		decoded, err := base64.StdEncoding.DecodeString(c.Auth)
		_, _, pair := strings.Cut(string(decoded), ":")
		if c.Auth != "" && (err != nil || !pair) {
			return errors.New("auths: the auth of a registry is not the base64 of USER:PASSWORD")
		}
		if c.Auth == "" && (c.Username == "" || c.Password == "") && c.IdentityToken == "" && c.RegistryToken == "" {
			return errors.New("auths: a registry has no credentials: add auth, or remove the registry")
		}
	}
	return nil
}

// Covers reports whether a rule for a path, or for a directory with everything below it, is a rule for files of trust.
// A rule for a directory above them, such as /etc, is not.
func Covers(rule string) bool {
	rule = path.Clean(rule)
	for _, dir := range []string{RegistriesDir, ContainersRegistriesDir, ContainerdRegistriesDir} {
		if rule == dir || strings.HasPrefix(rule, dir+"/") {
			return true
		}
	}
	return rule == UserCAPath || rule == KubeletCAPath || rule == CloudCAPath || rule == PullSecretPath
}
