package review

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
)

// user describes an account line by line. user writes a key as type, fingerprint and comment, and hides a password.
func user(u ign.PasswdUser) []string {
	lines := slices.Concat(number("uid", u.UID), said("comment", u.Gecos), said("home", u.HomeDir),
		said("shell", u.Shell), said("group", u.PrimaryGroup))
	if len(u.Groups) > 0 {
		names := make([]string, len(u.Groups))
		for i, g := range u.Groups {
			names[i] = string(g)
		}
		slices.Sort(names)
		lines = append(lines, "groups "+strings.Join(names, ", "))
	}
	for _, k := range u.SSHAuthorizedKeys {
		lines = append(lines, "key "+sshKey(string(k)))
	}
	lines = append(lines, password(u.PasswordHash)...)
	lines = append(lines, flags(map[string]*bool{
		"system": u.System, "noCreateHome": u.NoCreateHome,
		"noLogInit": u.NoLogInit, "noUserGroup": u.NoUserGroup,
	})...)
	return append(lines, absent(u.ShouldExist)...)
}

func group(g ign.PasswdGroup) []string {
	lines := append(number("gid", g.Gid), password(g.PasswordHash)...)
	lines = append(lines, flags(map[string]*bool{"system": g.System})...)
	return append(lines, absent(g.ShouldExist)...)
}

func number(what string, n *int) []string {
	if n == nil {
		return nil
	}
	return []string{fmt.Sprintf("%s %d", what, *n)}
}

func said(what string, text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return []string{what + " " + *text}
}

func password(hash *string) []string {
	if hash == nil || *hash == "" {
		return nil
	}
	return []string{"password " + secretmask.HiddenWithDigest(*hash)}
}

func flags(set map[string]*bool) (lines []string) {
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if set[name] != nil && *set[name] {
			lines = append(lines, name)
		}
	}
	return lines
}

func absent(shouldExist *bool) []string {
	if shouldExist == nil || *shouldExist {
		return nil
	}
	return []string{"absent: it is removed from nodes"}
}

// sshKey names a public key as ssh-keygen -l does: type, fingerprint, comment. Options before the type are kept.
func sshKey(line string) string {
	fields := strings.Fields(line)
	for i := 0; i+1 < len(fields); i++ {
		blob, err := base64.StdEncoding.DecodeString(fields[i+1])
		if err != nil || len(blob) < 4 || !strings.Contains(fields[i], "-") ||
			!strings.Contains(string(blob), fields[i]) {
			continue // A decoded key begins with its own type.
		}
		sum := sha256.Sum256(blob)
		fields[i+1] = "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
		return strings.Join(fields, " ")
	}
	return "of no known form: " + line
}

// single reads the kinds with only one item.
func single(kind disruption.ChangeKind, c machineconfig.Config) view {
	v := view{exists: true, plain: kind != disruption.KindFirstBootKargs}
	switch kind {
	case disruption.KindKargs, disruption.KindExtensions:
		v.attrs = ListOf(kind, c)
	case disruption.KindKernelType:
		v.attrs = []string{c.KernelType}
		if c.KernelType == "" {
			v.attrs[0] = "default"
		}
	case disruption.KindOSImage:
		if c.OSImageURL != "" {
			v.attrs = []string{c.OSImageURL}
		}
	case disruption.KindFIPS:
		v.attrs = []string{fmt.Sprint(c.FIPS)}
	case disruption.KindFirstBootKargs:
		for _, k := range c.Ignition.KernelArguments.ShouldExist {
			v.attrs = append(v.attrs, "shouldExist "+string(k))
		}
		for _, k := range c.Ignition.KernelArguments.ShouldNotExist {
			v.attrs = append(v.attrs, "shouldNotExist "+string(k))
		}
	}
	return v
}

// ignition reads a part of a config's section `ignition`: the included texts, and one setting per line.
func ignition(i ign.Ignition, name string) view {
	v := view{exists: slices.Contains(disruption.IgnitionParts(i), name)}
	taken := func(what string, list ...ign.Resource) {
		for n, r := range list {
			v.parts = append(v.parts, index{}.resource(fmt.Sprintf("%s %d", what, n+1), "", r))
		}
	}
	switch name {
	case "config.merge":
		taken("merged config", i.Config.Merge...)
	case "config.replace":
		if v.exists {
			taken("replacing config", i.Config.Replace)
		}
	case "security.tls":
		taken("authority", i.Security.TLS.CertificateAuthorities...)
	case "proxy":
		v.attrs = append(said("httpProxy", i.Proxy.HTTPProxy), said("httpsProxy", i.Proxy.HTTPSProxy)...)
		for _, host := range i.Proxy.NoProxy {
			v.attrs = append(v.attrs, "noProxy "+string(host))
		}
	case "timeouts":
		v.attrs = append(number("httpResponseHeaders", i.Timeouts.HTTPResponseHeaders),
			number("httpTotal", i.Timeouts.HTTPTotal)...)
	}
	return v
}

// storage writes the fields of a disk, filesystem, array or encrypted volume, one per line.
func storage(s ign.Storage, name string) view {
	for _, v := range []view{
		lookup(s.Disks, name, fields("disk", ign.Disk.Key)),
		lookup(s.Filesystems, name, fields("filesystem", ign.Filesystem.Key)),
		lookup(s.Raid, name, fields("raid", ign.Raid.Key)), lookup(s.Luks, name, fields("luks", ign.Luks.Key)),
	} {
		if v.exists {
			return v
		}
	}
	return view{}
}

// keyFile is the field of storage that unlocks a volume. Its type says that it is secret.
const keyFile = "keyFile"

// fields returns a reader for any type of storage, all of which are plain data.
func fields[T any](what string, _ func(T) string) func(T) []string {
	return func(item T) []string {
		raw, err := json.Marshal(item)
		if err != nil {
			return []string{what + " unreadable: " + err.Error()}
		}
		var all map[string]any
		if err := json.Unmarshal(raw, &all); err != nil {
			return []string{what + " unreadable: " + err.Error()}
		}
		return flatten(nil, what, all)
	}
}

// flatten writes the non-empty leaves of JSON as `path: value`.
func flatten(lines []string, at string, value any) []string {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if leaves := flatten(nil, "", v[key]); key == keyFile && len(leaves) > 0 {
				lines = append(lines, at+"."+key+": "+secretmask.HiddenWithDigest(fmt.Sprint(v[key])))
				continue
			}
			lines = flatten(lines, at+"."+key, v[key])
		}
	case []any:
		for i, item := range v {
			lines = flatten(lines, fmt.Sprintf("%s[%d]", at, i), item)
		}
	case nil:
	case string:
		if v != "" {
			lines = append(lines, at+": "+v)
		}
	default:
		lines = append(lines, fmt.Sprintf("%s: %v", at, v))
	}
	return lines
}

// ListOf returns the values of a kind that is a list, such as kernel arguments, or nil for any other kind.
func ListOf(kind disruption.ChangeKind, c machineconfig.Config) []string {
	switch kind {
	case disruption.KindKargs:
		return machineconfig.SplitKargs(c.KernelArguments)
	case disruption.KindExtensions:
		return slices.Sorted(slices.Values(c.Extensions))
	}
	return nil
}
