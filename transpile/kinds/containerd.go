package kinds

import (
	"slices"
	"strings"
)

// hostsDir has a directory for each registry with a file that containerd reads for each pull, if config_path in its
// config names the directory.
const hostsDir = "/etc/containerd/certs.d/"

// hostsPath returns the path of a source's file.
func hostsPath(name scope) string { return hostsDir + string(name) + "/hosts.toml" }

// forContainerd reports whether containerd can have mirrors of the source: it chooses them by registry only.
func (s *source) forContainerd() bool { return !s.name.isWildcard() && s.name.path() == "" }

// hostsFile returns the text of a source's hosts.toml. Without `server`, containerd tries the registry after all hosts.
// If nodes must not contact it, the last mirror takes its place.
func (s *source) hostsFile() string {
	mirrors := s.hosts
	var b strings.Builder
	if s.never {
		last := mirrors[len(mirrors)-1]
		mirrors = mirrors[:len(mirrors)-1]
		b.WriteString("server = " + quotedScope(address(last)) + "\n" + s.endpoint(last, ""))
	}
	for i, m := range mirrors {
		if i > 0 || s.never {
			b.WriteString("\n")
		}
		b.WriteString("[host." + quotedScope(address(m)) + "]\n" + s.endpoint(m, "  "))
	}
	return b.String()
}

// endpoint returns the settings of one mirror. A mirror for tags finds the digest of a tag; content is always pulled by
// digest, so that each mirror for tags also serves digests.
func (s *source) endpoint(m scope, indent string) string {
	text := indent + `capabilities = ["pull"]` + "\n"
	if slices.Contains(s.tagHosts, m) {
		text = indent + `capabilities = ["pull", "resolve"]` + "\n"
	}
	if m.path() != "" { // the address has more after /v2, and containerd would append another /v2
		text += indent + "override_path = true\n"
	}
	return text
}

// dockerHub is the host that serves the images of docker.io.
const dockerHub = "registry-1.docker.io"

// address returns the URL of a mirror.
func address(m scope) string {
	host := m.host()
	if host == "docker.io" {
		host = dockerHub
	}
	if m.path() == "" {
		return "https://" + host
	}
	return "https://" + host + "/v2/" + m.path()
}
