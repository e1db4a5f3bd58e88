package apply

import (
	"strings"

	"github.com/bunsen-os/bunsen/mcd/host"
)

// Release reads the fields of os-release(5); none without the file.
func Release(files host.Files) map[string]string {
	fields := map[string]string{}
	for _, at := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if is, err := files.Stat(at); err == nil && is.Kind == host.Link {
			at = host.LinkTarget(at, is.Target)
		}
		text, err := files.Read(at)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			fields[key] = strings.Trim(value, `"'`)
		}
		break
	}
	return fields
}
