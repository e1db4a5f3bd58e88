package review

import (
	"crypto/sha256"
	"fmt"
	"sort"
	"strings"
	"unicode/utf8"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/pmezard/go-difflib/difflib"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/policy"
)

// view is one item as people read it: a line of attributes, and its content.
type view struct {
	exists  bool
	attrs   string
	content []byte
	secret  bool
}

// difference describes one change: attributes that moved, then a unified diff of the content.
func difference(c policy.Change, from, to machineconfig.Config) string {
	a, b := look(c, from), look(c, to)
	var out strings.Builder
	if a.exists && b.exists && a.attrs != b.attrs {
		fmt.Fprintf(&out, "-%s\n+%s\n", a.attrs, b.attrs)
	}
	switch {
	case string(a.content) == string(b.content):
	case a.secret || b.secret:
		fmt.Fprintf(&out, "content changed (hidden, %s → %s)\n", digest(a), digest(b))
	case !isText(a.content) || !isText(b.content):
		fmt.Fprintf(&out, "binary content changed (%d bytes, %s → %d bytes, %s)\n", len(a.content), digest(a), len(b.content), digest(b))
	default:
		out.WriteString(unified(a.content, b.content))
	}
	return out.String()
}

func look(c policy.Change, cfg machineconfig.Config) view {
	switch c.Kind {
	case policy.KindFile:
		return lookFile(c.Name, cfg.Ignition.Storage.Files)
	case policy.KindUnit:
		return lookUnit(c.Name, cfg.Ignition.Systemd.Units)
	case policy.KindUser:
		return lookUser(c.Name, cfg.Ignition.Passwd.Users)
	default:
		return lookOther(c.Kind, cfg)
	}
}

func lookFile(path string, files []ign.File) view {
	for i := range files {
		f := &files[i]
		if f.Path != path {
			continue
		}
		v := view{exists: true, attrs: "mode " + mode(f.Mode) + owner(f.Node)}
		content, err := machineconfig.Contents(f.Contents)
		if err != nil {
			content = []byte("(unreadable: " + err.Error() + ")\n")
		}
		v.content, v.secret = content, secret(path, content)
		return v
	}
	return view{}
}

func mode(m *int) string {
	if m == nil {
		return "0644"
	}
	return fmt.Sprintf("%#o", *m)
}

func owner(n ign.Node) string {
	id := func(name *string, id *int) string {
		switch {
		case id != nil:
			return fmt.Sprint(*id)
		case name != nil && *name != "":
			return *name
		default:
			return "root"
		}
	}
	return " owner " + id(n.User.Name, n.User.ID) + ":" + id(n.Group.Name, n.Group.ID)
}

// lookUnit writes a unit as one text, its drop-ins below it, the way `systemctl cat` does.
func lookUnit(name string, units []ign.Unit) view {
	for i := range units {
		u := &units[i]
		if u.Name != name {
			continue
		}
		v := view{exists: true}
		var state []string
		if u.Enabled != nil {
			state = append(state, map[bool]string{true: "enabled", false: "disabled"}[*u.Enabled])
		}
		if u.Mask != nil && *u.Mask {
			state = append(state, "masked")
		}
		if len(state) == 0 {
			state = []string{"enabled by preset"}
		}
		v.attrs = strings.Join(state, ", ")
		var text strings.Builder
		if u.Contents != nil {
			text.WriteString(*u.Contents)
		}
		for _, d := range u.Dropins {
			if d.Contents != nil {
				fmt.Fprintf(&text, "# %s.d/%s\n%s", u.Name, d.Name, *d.Contents)
			}
		}
		v.content = []byte(text.String())
		v.secret = secret("", v.content)
		return v
	}
	return view{}
}

func lookUser(name string, users []ign.PasswdUser) view {
	for i := range users {
		u := &users[i]
		if u.Name != name {
			continue
		}
		var text strings.Builder
		for _, k := range u.SSHAuthorizedKeys {
			text.WriteString("ssh " + string(k) + "\n")
		}
		if u.PasswordHash != nil {
			fmt.Fprintf(&text, "password (hidden, sha256 %.8x)\n", sha256.Sum256([]byte(*u.PasswordHash)))
		}
		return view{exists: true, content: []byte(text.String())}
	}
	return view{}
}

func lookOther(kind policy.ChangeKind, cfg machineconfig.Config) view {
	var lines []string
	switch kind {
	case policy.KindKargs:
		lines = cfg.KernelArguments
	case policy.KindExtensions:
		lines = append(lines, cfg.Extensions...)
		sort.Strings(lines)
	case policy.KindKernelType:
		lines = []string{cfg.KernelType}
		if cfg.KernelType == "" {
			lines = []string{"default"}
		}
	case policy.KindOSImage:
		lines = []string{cfg.OSImageURL}
	case policy.KindFIPS:
		lines = []string{fmt.Sprint(cfg.FIPS)}
	}
	text := ""
	for _, l := range lines {
		text += l + "\n"
	}
	return view{exists: true, content: []byte(text)}
}

func digest(v view) string {
	if !v.exists {
		return "nothing"
	}
	return fmt.Sprintf("sha256 %.8x", sha256.Sum256(v.content))
}

func isText(b []byte) bool {
	return utf8.Valid(b) && !strings.ContainsRune(string(b), 0)
}

func unified(a, b []byte) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(a), B: lines(b), Context: 3})
	if err != nil {
		return err.Error() + "\n" // a strings.Builder does not fail
	}
	return text
}

// lines splits into lines that each end in a newline, which the diff needs also for the last.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	out := strings.SplitAfter(string(b), "\n")
	if last := len(out) - 1; out[last] == "" {
		out = out[:last]
	} else {
		out[last] += "\n\\ No newline at end of file\n"
	}
	return out
}
