package main

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/sops"
	mcshttp "github.com/bunsen-os/bunsen/mcs/http"
)

// check returns all errors in the flags. The function given reports whether the user set a flag.
func (f flags) check(given func(string) bool) error {
	var bad []error
	for _, rule := range []func(func(string) bool) []error{
		f.checkFrom, f.checkAlone, f.checkValues, f.checkLimits,
		f.checkExtra,
	} {
		bad = append(bad, rule(given)...)
	}
	return errors.Join(bad...)
}

// checkFrom checks that there is one source of configs, with the flags that it needs.
func (f flags) checkFrom(func(string) bool) (bad []error) {
	var from []string
	for flag, value := range map[string]string{
		"--kubeconfig": f.from.kubeconfig, "--from-dir": f.from.dir,
		"--from-git": f.from.git,
	} {
		if value != "" {
			from = append(from, flag)
		}
	}
	slices.Sort(from)
	if len(from) > 1 {
		bad = append(bad, fmt.Errorf("%s cannot be combined: configs come from a cluster, a directory or a repository",
			strings.Join(from, " and ")))
	}
	if f.from.cluster() {
		if f.from.tokens != "" {
			bad = append(bad, errors.New("--tokens-file is for a server without a cluster; in a cluster, create "+
				"tokens with: bunsen token create"))
		}
		return bad
	}
	if f.from.tokens == "" && f.access.clientCA == "" && !f.access.open {
		bad = append(bad, errors.New("no client could read a config: set --tokens-file, --client-ca, or --open to "+
			"serve every client"))
	}
	if f.from.cache == "" && f.from.git != "" {
		bad = append(bad, errors.New("--from-git needs --cache-dir: the server stores the commits there"))
	}
	if f.from.cache == "" && f.from.tokens != "" {
		bad = append(bad, errors.New("--tokens-file needs --cache-dir: the server counts the uses of tokens there"))
	}
	return bad
}

// checkAlone returns errors for flags that have no effect without another flag.
func (f flags) checkAlone(given func(string) bool) (bad []error) {
	for _, rule := range []struct {
		needed bool
		flags  []string
		says   string
	}{
		{f.from.git != "", []string{"ref", "path", "pools", "interval", "git-credentials", "git-keys", "os-image", "extensions-image"}, "needs a repository: set --from-git"},
		{f.from.cluster(), []string{"serve"}, "needs a cluster, because there are no rollouts without one: remove it"},
		{f.from.cluster(), []string{"join-server"}, "needs a cluster, where the server creates bootstrap tokens: remove it, or --from-dir and --from-git"},
		{f.from.cluster(), []string{"tls-secret"}, "needs a cluster: set --cert-dir"},
		{f.from.cluster(), []string{"name"}, "needs a cluster: remove it"},
		{f.from.cluster(), []string{"key-service", "key-service-key"}, "needs a cluster, because without one the server decrypts no files: remove it"},
		{f.extra.server != "", []string{"join-ca"}, "is the CA of --join-server: set --join-server"},
	} {
		for _, flag := range rule.flags {
			if !rule.needed && given(flag) {
				bad = append(bad, fmt.Errorf("--%s %s", flag, rule.says))
			}
		}
	}
	return bad
}

// secretName matches NAMESPACE/NAME.
var secretName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?/[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// checkValues checks the values of flags.
func (f flags) checkValues(given func(string) bool) (bad []error) {
	for _, rule := range []struct {
		flag, value string
		known       []string
	}{
		{"serve", f.serve, []string{v1alpha1.ServeHealthy, v1alpha1.ServeNewest}},
		{"secrets", f.access.secrets, []string{secretsBound, secretsAll}},
	} {
		if !slices.Contains(rule.known, rule.value) {
			bad = append(bad, fmt.Errorf("--%s is %s, not %q", rule.flag, strings.Join(rule.known, " or "), rule.value))
		}
	}
	if f.tls.secret != "" && !secretName.MatchString(f.tls.secret) {
		bad = append(bad, fmt.Errorf("--tls-secret is a namespace and a name, as %s, not %q", defaultSecret,
			f.tls.secret))
	}
	if _, err := mcshttp.ParseAllowFrom(f.access.from); err != nil {
		bad = append(bad, fmt.Errorf("reading --allow-from: %w", err))
	}
	if f.from.git != "" && f.git.interval <= 0 {
		bad = append(bad, fmt.Errorf("--interval is a duration such as 1m, not %s", f.git.interval))
	}
	bad = append(bad, checkImages(f.git)...)
	if f.tls.grace < 0 {
		bad = append(bad, fmt.Errorf("--grace is a duration such as 1m, not %s", f.tls.grace))
	}
	return append(bad, f.keyService.check()...)
}

// checkImages checks that the default images have digests.
func checkImages(g gitFlags) (bad []error) {
	for _, image := range []struct{ flag, reference string }{
		{"os-image", g.osImage}, {"extensions-image", g.extensionsImage},
	} {
		if err := machineconfig.CheckImageFlag(image.reference); err != nil {
			bad = append(bad, fmt.Errorf("--%s: %w", image.flag, err))
		}
	}
	return bad
}

// maxContentCache is the largest --content-cache: 1 PiB.
const maxContentCache = 1 << 30

// checkLimits checks that the limits allow at least one request.
func (f flags) checkLimits(func(string) bool) (bad []error) {
	l := f.limits
	for _, rule := range []struct {
		rate, burst string
		perSecond   float64
		atOnce      int
	}{
		{"--rate", "--burst", l.rate, l.burst},
		{"--failure-rate", "--failure-burst", l.failureRate, l.failureBurst},
	} {
		if rule.perSecond < 0 {
			bad = append(bad, fmt.Errorf("%s is a number of requests per second, or 0 for no limit, not %g", rule.rate,
				rule.perSecond))
		}
		if rule.perSecond > 0 && rule.atOnce < 1 {
			bad = append(bad, fmt.Errorf("%s %d allows no request: set at least 1, or %s 0 for no limit", rule.burst,
				rule.atOnce, rule.rate))
		}
	}
	if l.connections < 1 {
		bad = append(bad, fmt.Errorf("--max-connections %d allows no connection: set at least 1", l.connections))
	}
	if l.content < 1 || l.content > maxContentCache {
		bad = append(bad, fmt.Errorf("--content-cache is a number of MiB, at least 1 and at most %d, not %d",
			maxContentCache, l.content))
	}
	if l.perSource < 1 {
		bad = append(bad, fmt.Errorf("--max-connections-per-source %d allows no connection: set at least 1",
			l.perSource))
	}
	return bad
}

// checkExtra checks the flags that select additions to configs.
func (f flags) checkExtra(func(string) bool) (bad []error) {
	if _, err := registryCAs(f.extra.registryCAs); err != nil {
		bad = append(bad, err)
	}
	if f.extra.server == "" {
		return bad
	}
	u, err := url.Parse(f.extra.server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		bad = append(bad, fmt.Errorf("--join-server is a URL such as https://api.example.com:6443, not %q",
			f.extra.server))
	}
	return bad
}

// registryName matches the name of a registry, host or host:port, which is also the name of a directory with its
// certificates.
var registryName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?$`)

// registry is one value of --registry-ca.
type registry struct{ name, file string }

// registryCAs parses the values of --registry-ca, and returns them sorted by name.
func registryCAs(texts []string) ([]registry, error) {
	var all []registry
	var bad []error
	for _, text := range texts {
		name, file, ok := strings.Cut(text, "=")
		switch {
		case !ok || file == "" || !registryName.MatchString(name):
			bad = append(bad, fmt.Errorf("--registry-ca is NAME=FILE, such as registry.example.com:5000=ca.crt, not %q",
				text))
		case slices.ContainsFunc(all, func(r registry) bool { return r.name == name }):
			bad = append(bad, fmt.Errorf("--registry-ca names %s twice: put both certificates into one file", name))
		default:
			all = append(all, registry{name, file})
		}
	}
	slices.SortFunc(all, func(a, b registry) int { return strings.Compare(a.name, b.name) })
	return all, errors.Join(bad...)
}

// check returns all errors in the flags.
func (f keyServiceFlags) check() (bad []error) {
	if _, err := f.decrypters(); err != nil {
		bad = append(bad, err)
	}
	if (f.address == "") != (len(f.keys) == 0) {
		bad = append(bad, errors.New("--key-service and --key-service-key belong together: where the key service is, "+
			"and the keys for which it may be asked"))
	}
	for _, key := range f.keys {
		if err := sops.ParseAllowed(key); err != nil {
			bad = append(bad, fmt.Errorf("reading --key-service-key: %w", err))
		}
	}
	return bad
}
