package kinds

import "strings"

// confDir has the files that CRI-O, Podman and others read after registries.conf. An entry there replaces an entry for
// the same registry in registries.conf.
const confDir = "/etc/containers/registries.conf.d/"

// confPath returns the path of a source's file.
func confPath(name scope) string { return confDir + "90-registry-" + name.fileName() + ".conf" }

// conf returns the text of a source's file, in version 2 of containers-registries.conf(5).
func (s *source) conf() string {
	var b strings.Builder
	b.WriteString("[[registry]]\n")
	if s.name.isWildcard() {
		b.WriteString("prefix = " + quotedScope(string(s.name)) + "\n")
	} else {
		b.WriteString("location = " + quotedScope(string(s.name)) + "\n")
	}
	if s.never {
		b.WriteString("blocked = true\n")
	}
	mirrors := func(list []scope, pull string) {
		for _, m := range list {
			b.WriteString("\n[[registry.mirror]]\nlocation = " + quotedScope(string(m)) + "\npull-from-mirror = " +
				quotedScope(pull) + "\n")
		}
	}
	mirrors(s.digest, "digest-only")
	mirrors(s.tag, "tag-only")
	return b.String()
}

// quotedScope returns a text as a TOML string. It escapes nothing, because scopes contain only letters, digits and
// ._:/*-
func quotedScope(text string) string { return `"` + text + `"` }
