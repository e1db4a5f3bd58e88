package mcs

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ContentAccess is how a new machine reads files of the content store and of OCI registries from the server.
type ContentAccess struct {
	// Server is its URL without a path, as the machine reaches it.
	Server string
	// CA is what the machine has to trust there, as PEM; nil if it does already.
	CA []byte
	// Expires is the end of the grants. Those of one server and one end are equal.
	Expires time.Time
	// Grant is for a file by its name: a hash, or the address in a registry.
	Grant func(name string) string
}

// NoContentStoreError says that a config has files of the content store, and that the server has no content store.
type NoContentStoreError struct {
	Config string
	Files  []string
}

// Error names the config and its files.
func (e *NoContentStoreError) Error() string {
	return fmt.Sprintf("config %s has files in the content store of a cluster (%s), and this server has no content "+
		"store. Run the server in the cluster, or serve the files at an https:// address",
		e.Config, strings.Join(e.Files, ", "))
}

// storedFiles are in the content store. The config is flat.
func storedFiles(c machineconfig.Config) (paths []string) {
	for _, f := range c.Ignition.Storage.Files {
		if f.Contents.Source == nil {
			continue
		}
		if _, stored := machineconfig.StoredHash(*f.Contents.Source); stored {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

// StoredHashes returns the hashes of files in the content store; none for an invalid config, which no machine gets.
func StoredHashes(rendered *mcfgv1.MachineConfig) (hashes []string) {
	config, err := machineconfig.Parse(rendered.Spec)
	if err != nil {
		return nil
	}
	for _, f := range machineconfig.RemoteFiles(config) {
		if hash, stored := machineconfig.StoredHash(f.URL); stored {
			hashes = append(hashes, hash)
		}
	}
	return hashes
}

// errNoRegistries: the server reads none.
var errNoRegistries = errors.New("the config has files in OCI registries, which new machines read from the server, " +
	"and this server reads no registries")

// NeedsServer reports whether machines with a rendered config read files from the server. No machine gets an invalid
// config.
func NeedsServer(rendered *mcfgv1.MachineConfig) bool {
	config, err := machineconfig.Parse(rendered.Spec)
	return err == nil && len(servedFiles(config)) > 0
}

// servedFiles returns the server's names of the files that new machines read from it.
func servedFiles(c machineconfig.Config) (names []string) {
	for _, f := range machineconfig.RemoteFiles(c) {
		if name := servedName(f.URL); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// withContent replaces the addresses of files of the content store and of registries by those of the server, with
// grants, in the address for versions of Ignition without headers. The machine reaches the server as for its config:
// without the proxies of the config, and with the server's CA.
func (d spec) withContent(c machineconfig.Config, in Input) (machineconfig.Config, error) {
	paths := storedFiles(c)
	if len(paths) > 0 && in.Content == nil {
		return c, &NoContentStoreError{Config: in.Rendered.Name, Files: paths}
	}
	if len(servedFiles(c)) == 0 {
		return c, nil
	}
	if in.Content == nil {
		return c, fmt.Errorf("serving config %s: %w", in.Rendered.Name, errNoRegistries)
	}
	files := slices.Clone(c.Ignition.Storage.Files)
	for i, f := range files {
		if f.Contents.Source == nil {
			continue
		}
		if name := servedName(*f.Contents.Source); name != "" {
			files[i].Contents = in.Content.resource(f.Contents, name, d.headers())
		}
	}
	c.Ignition.Storage.Files = files
	settings := &c.Ignition.Ignition
	if len(in.Content.CA) > 0 && !trusts(settings.Security.TLS.CertificateAuthorities, in.Content.CA) {
		source := "data:;base64," + base64.StdEncoding.EncodeToString(in.Content.CA)
		settings.Security.TLS.CertificateAuthorities = append(
			slices.Clone(settings.Security.TLS.CertificateAuthorities), ign.Resource{Source: &source})
	}
	if u, err := url.Parse(in.Content.Server); err == nil &&
		(settings.Proxy.HTTPProxy != nil || settings.Proxy.HTTPSProxy != nil) {
		settings.Proxy.NoProxy = append(slices.Clone(settings.Proxy.NoProxy), ign.NoProxyItem(u.Hostname()))
	}
	return c, nil
}

// headers reports whether this version of Ignition sends headers of the config.
func (d spec) headers() bool { return d.version != V2_2 && d.version != V3_0 }

func (a ContentAccess) resource(r ign.Resource, name string, headers bool) ign.Resource {
	source, grant := a.Server+contentPath(name), a.Grant(name)
	if !headers {
		source += "?" + v1alpha1.ContentGrantQuery + "=" + url.QueryEscape(grant)
		r.Source, r.HTTPHeaders = &source, nil
		return r
	}
	value := v1alpha1.ContentGrantScheme + grant
	r.Source, r.HTTPHeaders = &source, ign.HTTPHeaders{{Name: "Authorization", Value: &value}}
	return r
}

func contentPath(name string) string {
	rest, isArtifact := strings.CutPrefix(name, machineconfig.ArtifactScheme)
	if !isArtifact {
		return v1alpha1.ContentPath + name
	}
	return (&url.URL{Path: v1alpha1.ContentPath + v1alpha1.ContentArtifact + rest}).EscapedPath()
}

// trusts reports whether a list of CAs has a bundle.
func trusts(all []ign.Resource, pem []byte) bool {
	return slices.ContainsFunc(all, func(r ign.Resource) bool {
		have, err := machineconfig.Contents(r)
		return err == nil && bytes.Equal(have, pem)
	})
}

// servedName returns the server's name of the file that a source names: the hash of one of the content store, or the
// address of one in a registry without its tag, oci://REGISTRY/NAME@sha256:HEX; empty if machines do not read it from
// the server.
func servedName(source string) string {
	if hash, stored := machineconfig.StoredHash(source); stored {
		return hash
	}
	a, is, err := machineconfig.ArtifactOf(source)
	if !is || err != nil {
		return ""
	}
	a.Tag = ""
	return a.String()
}

// ParseArtifactName returns the file in a registry that has a name. The result ok is false for any other text.
func ParseArtifactName(name string) (a machineconfig.Artifact, ok bool) {
	a, err := machineconfig.ParseArtifact(name)
	if err != nil || a.Tag != "" || a.String() != name {
		return machineconfig.Artifact{}, false
	}
	return a, true
}

// ContentName returns the name of the file at a path of the server, after v1alpha1.ContentPath; empty if there is none.
func ContentName(path string) string {
	if machineconfig.IsStoredHash(path) {
		return path
	}
	if rest, is := strings.CutPrefix(path, v1alpha1.ContentArtifact); is {
		if name := machineconfig.ArtifactScheme + rest; isArtifactName(name) {
			return name
		}
	}
	return ""
}

func isArtifactName(name string) bool {
	_, ok := ParseArtifactName(name)
	return ok
}
