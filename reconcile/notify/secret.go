package notify

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/forge"
	"github.com/bunsen-os/bunsen/source"
)

// minToken is for a key that signs webhooks, in bytes.
const minToken = 16

type secret struct {
	hosts                        []string
	address, token, room, author string
	authorities                  *x509.CertPool
	// no message may contain them
	hidden []string
}

// keysOf: the keys for each type, and which are required
var keysOf = map[v1alpha1.NotificationType]struct{ needs, may []string }{
	v1alpha1.NotifyGitHub:      {[]string{"hosts", "token"}, []string{"address", "author", "ca.crt"}},
	v1alpha1.NotifyGitLab:      {[]string{"hosts", "token"}, []string{"address", "ca.crt"}},
	v1alpha1.NotifyGitea:       {[]string{"hosts", "token"}, []string{"address", "author", "ca.crt"}},
	v1alpha1.NotifyCloudEvents: {[]string{"hosts", "address"}, []string{"token", "ca.crt"}},
	v1alpha1.NotifyWebhook:     {[]string{"hosts", "address", "token"}, []string{"ca.crt"}},
	v1alpha1.NotifySlack:       {[]string{"hosts", "address"}, []string{"ca.crt"}},
	v1alpha1.NotifyMatrix:      {[]string{"hosts", "address", "token", "room"}, []string{"ca.crt"}},
}

// readSecret returns errors that contain no values.
func readSecret(kind v1alpha1.NotificationType, data map[string][]byte) (secret, error) {
	errs := checkKeys(kind, data)
	value := func(key string) string { return strings.TrimSpace(string(data[key])) }
	s := secret{
		address: value("address"), token: value("token"), room: value("room"), author: value("author"),
		hosts: strings.FieldsFunc(string(data["hosts"]), func(r rune) bool {
			return strings.ContainsRune(", \n\r\t", r)
		}),
	}
	s.hidden = []string{s.token}
	if !kind.IsGitHost() {
		s.hidden = append(s.hidden, s.address)
	}
	if kind == v1alpha1.NotifyWebhook && s.token != "" && len(s.token) < minToken {
		errs = append(errs, fmt.Errorf("the key \"token\", which signs the requests, has fewer than %d bytes: use "+
			"the output of openssl rand -hex 32", minToken))
	}
	if strings.ContainsAny(s.token, "\r\n\x00") {
		errs = append(errs, errors.New("the key \"token\" has several lines: write the token alone"))
	}
	if ca := data["ca.crt"]; len(ca) > 0 {
		s.authorities = x509.NewCertPool()
		if !s.authorities.AppendCertsFromPEM(ca) {
			errs = append(errs, errors.New("the key \"ca.crt\" has no certificate in PEM form"))
		}
	}
	if s.address != "" {
		errs = append(errs, checkAddress(s.address, s.hosts))
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return s, errors.Join(errs...)
}

// checkKeys finds unknown and missing keys.
func checkKeys(kind v1alpha1.NotificationType, data map[string][]byte) []error {
	var errs []error
	keys := keysOf[kind]
	for key := range data {
		if !slices.Contains(keys.needs, key) && !slices.Contains(keys.may, key) {
			errs = append(errs, fmt.Errorf("the key %q is not used for type %s: rename or remove it; the keys are %s",
				key, kind, strings.Join(append(slices.Clone(keys.needs), keys.may...), ", ")))
		}
	}
	for _, key := range keys.needs {
		if strings.TrimSpace(string(data[key])) == "" {
			errs = append(errs, fmt.Errorf("the key %q is missing: add it below stringData", key))
		}
	}
	return errs
}

// checkAddress requires a URL of a host that the Secret lists.
func checkAddress(address string, hosts []string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return errors.New("the key \"address\" is not a URL such as https://host/path without a user")
	}
	return allowed(u, hosts)
}

// kinds: those that are git hosts
var kinds = map[v1alpha1.NotificationType]forge.Kind{
	v1alpha1.NotifyGitHub: forge.GitHub, v1alpha1.NotifyGitLab: forge.GitLab, v1alpha1.NotifyGitea: forge.Gitea,
}

// errElsewhere: the git host does not have the repository of a source.
var errElsewhere = errors.New("the repository is not on this git host")

// targetOf returns the repository of a source on the git host, or errElsewhere.
func (s secret) targetOf(kind v1alpha1.NotificationType, spec v1alpha1.GitSourceSpec) (forge.Target, error) {
	repo, err := source.ParseURL(spec.URL)
	if err != nil {
		return forge.Target{}, err
	}
	// No git host has commit statuses for local repositories and registries.
	if repo.Transport == source.Local || repo.Transport == source.OCI {
		return forge.Target{}, errElsewhere
	}
	t := forge.Target{Kind: kinds[kind], Token: s.token, Author: s.author, API: s.address}
	if unescaped, err := url.PathUnescape(repo.Path); err == nil {
		t.Project = strings.TrimSuffix(strings.Trim(unescaped, "/"), ".git")
	}
	host := repo.Host
	if t.API == "" {
		t.API = apiOf(t.Kind, repo)
	} else if u, err := url.Parse(t.API); err != nil || !strings.EqualFold(strings.TrimPrefix(u.Hostname(), "api."),
		host) && !strings.EqualFold(u.Hostname(), host) {
		return t, errElsewhere
	}
	u, err := url.Parse(t.API)
	if err != nil || allowed(u, s.hosts) != nil {
		return t, errElsewhere
	}
	if strings.Count(t.Project, "/") < 1 || t.Kind != forge.GitLab && strings.Count(t.Project, "/") > 1 {
		return t, fmt.Errorf("the path %q of the repository is not owner/name: set the key \"address\" of the Secret "+
			"to the API, or another URL in the GitSource", t.Project)
	}
	return t, nil
}

func apiOf(kind forge.Kind, repo source.Address) string {
	scheme, host := "https", repo.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if repo.Transport == source.HTTP {
		scheme = repo.Scheme
		if repo.Port != "" {
			host += ":" + repo.Port
		}
	}
	switch {
	case kind == forge.GitHub && strings.EqualFold(repo.Host, "github.com"):
		return "https://api.github.com"
	case kind == forge.GitHub:
		return scheme + "://" + host + "/api/v3"
	case kind == forge.GitLab:
		return scheme + "://" + host + "/api/v4"
	default:
		return scheme + "://" + host + "/api/v1"
	}
}
