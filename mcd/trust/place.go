package trust

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"strings"

	"github.com/bunsen-os/bunsen/api/trustfile"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/internal/distribution"
)

// Machine is what the places of files depend on.
type Machine struct {
	// Store is the trust store of the operating system; the zero value if it is not known.
	Store distribution.TrustStore
	// Dirs are the existing ones of DirsOf.
	Dirs map[string]bool
}

// defaultHost is the directory for the registries without one of their own.
const defaultHost = "/_default"

// DirsOf returns the directories whose existence decides where files go.
func DirsOf(files []v1alpha1.TrustFile) []string {
	dirs := []string{trustfile.ContainerdRegistriesDir, trustfile.ContainerdRegistriesDir + defaultHost}
	for _, f := range files {
		if registry, is := trustfile.Registry(f.Path); is {
			dirs = append(dirs, path.Join(trustfile.ContainersRegistriesDir, registry),
				path.Join(trustfile.ContainerdRegistriesDir, registry))
		}
	}
	return dirs
}

// place returns the files of a machine for one file of the server's answer.
func (m Machine) place(f v1alpha1.TrustFile) []v1alpha1.TrustFile {
	if f.Path == trustfile.UserCAPath {
		return m.placeUserCA(f)
	}
	all := []v1alpha1.TrustFile{f}
	registry, is := trustfile.Registry(f.Path)
	if !is {
		return all
	}
	// podman and CRI-O read only the first of two directories that exists, and containerd reads its own one only.
	containers, containerd := path.Join(trustfile.ContainersRegistriesDir, registry),
		path.Join(trustfile.ContainerdRegistriesDir, registry)
	if m.Dirs[containers] {
		all = append(all, at(f, path.Join(containers, trustfile.RegistryFile)))
	}
	// A new directory for the registry would hide the settings in _default.
	if m.Dirs[trustfile.ContainerdRegistriesDir] &&
		(m.Dirs[containerd] || !m.Dirs[trustfile.ContainerdRegistriesDir+defaultHost]) {
		all = append(all, at(f, path.Join(containerd, trustfile.RegistryFile)))
	}
	return all
}

// placeUserCA returns the files of the user's CA bundle: one file, or one for each certificate.
func (m Machine) placeUserCA(f v1alpha1.TrustFile) []v1alpha1.TrustFile {
	if m.Store.Dir == "" || path.Dir(f.Path) == m.Store.Dir {
		return []v1alpha1.TrustFile{f}
	}
	name := path.Join(m.Store.Dir, strings.TrimSuffix(path.Base(f.Path), path.Ext(f.Path)))
	certificates, err := trustfile.Certificates([]byte(f.Contents))
	if err != nil || !m.Store.Single {
		return []v1alpha1.TrustFile{at(f, name+m.Store.Suffix)}
	}
	var all []v1alpha1.TrustFile
	seen := map[string]bool{}
	for _, c := range certificates {
		sum := sha256.Sum256(c.Raw)
		one := at(f, name+"-"+hex.EncodeToString(sum[:8])+m.Store.Suffix)
		if one.Contents = trustfile.PEM(c); !seen[one.Path] {
			all = append(all, one)
		}
		seen[one.Path] = true
	}
	return all
}

// isAnchor reports whether the trust store reads a path.
func (m Machine) isAnchor(p string) bool { return m.Store.Dir != "" && path.Dir(p) == m.Store.Dir }

func at(f v1alpha1.TrustFile, p string) v1alpha1.TrustFile {
	f.Path = p
	return f
}
