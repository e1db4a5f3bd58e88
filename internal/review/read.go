package review

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/internal/disruption"
	"github.com/bunsen-os/bunsen/internal/secretmask"
	"github.com/bunsen-os/bunsen/internal/sops/document"
)

// view is one item in readable form: lines of attributes, and contents.
type view struct {
	exists bool
	// each begins with the name of an attribute
	attrs []string
	// The attributes are values without a name in front, such as arguments or an image.
	plain bool
	// the contents of a file, or each drop-in of a unit
	parts []part
	// the attributes that the config leaves to the machine; withUnset names them
	unset []string
}

type part struct {
	// such as "contents", "drop-in 10-x.conf" or "append 1"
	name    string
	content []byte
	// what people may see of the content
	shown secretmask.Masked
	// a file that SOPS encrypted, or nil; if marked, its values in the clear are not shown
	encrypted *document.Document
	marked    bool
	// decrypted; nil without a key for it
	plain []byte
}

func newPart(name, path string, content []byte, marked secretmask.Paths) part {
	return part{name: name, content: content, shown: marked.Mask(path, string(content))}
}

// contentPair is an item on both sides.
type contentPair struct{ from, to view }

type index struct {
	config machineconfig.Config
	knownContent
	files map[string]*ign.File
	units map[string]*ign.Unit
}

// knownContent is what is known about the items of both sides.
type knownContent struct {
	// Marked items never show their contents.
	Marked secretmask.Paths
	// Sizes of files of the content store.
	Sizes DownloadSizes
	// Decrypt decrypts a file of SOPS, for a reader who has its key; if nil, differences have no decrypted value.
	Decrypt func(format string, body []byte) ([]byte, error)
}

func newIndex(c machineconfig.Config, known knownContent) index {
	x := index{config: c, knownContent: known, files: map[string]*ign.File{}, units: map[string]*ign.Unit{}}
	for i := range c.Ignition.Storage.Files {
		f := &c.Ignition.Storage.Files[i]
		x.files[f.Path] = f
	}
	for i := range c.Ignition.Systemd.Units {
		u := &c.Ignition.Systemd.Units[i]
		x.units[u.Name] = u
	}
	return x
}

// readItems reads each changed item on both sides. Marked items are hidden on both sides.
func readItems(changes []disruption.Costed, from, to machineconfig.Config, known knownContent) []contentPair {
	a, b := newIndex(from, known), newIndex(to, known)
	out := make([]contentPair, len(changes))
	for i, c := range changes {
		out[i] = withUnset(withUnsetState(contentPair{a.read(c.Kind, c.Name), b.read(c.Kind, c.Name)}))
	}
	return out
}

func (x index) read(kind disruption.ChangeKind, name string) view {
	switch kind {
	case disruption.KindFile:
		return x.file(name)
	case disruption.KindUnit:
		return x.unit(name)
	case disruption.KindDirectory:
		v := lookup(x.config.Ignition.Storage.Directories, name, directory)
		for _, d := range x.config.Ignition.Storage.Directories {
			if d.Path == name && (d.Overwrite == nil || !*d.Overwrite) {
				v.unset = unset(d.Mode == nil, d.Node)
			}
		}
		return v
	case disruption.KindLink:
		v := lookup(x.config.Ignition.Storage.Links, name, link)
		for _, l := range x.config.Ignition.Storage.Links {
			if l.Path == name && (l.Hard == nil || !*l.Hard) {
				v.unset = unset(false, l.Node)
			}
		}
		return v
	case disruption.KindUser:
		return lookup(x.config.Ignition.Passwd.Users, name, user)
	case disruption.KindGroup:
		return lookup(x.config.Ignition.Passwd.Groups, name, group)
	case disruption.KindStorage:
		return storage(x.config.Ignition.Storage, name)
	case disruption.KindIgnition:
		return ignition(x.config.Ignition.Ignition, name)
	}
	return single(kind, x.config)
}

// user describes an account line by line: a key by type, fingerprint and comment, and no password.
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

// storage writes the fields of a disk, filesystem, array or encrypted volume, one per line.
func storage(s ign.Storage, name string) view {
	for _, v := range []view{
		lookup(s.Disks, name, fields[ign.Disk]("disk")),
		lookup(s.Filesystems, name, fields[ign.Filesystem]("filesystem")),
		lookup(s.Raid, name, fields[ign.Raid]("raid")), lookup(s.Luks, name, fields[ign.Luks]("luks")),
	} {
		if v.exists {
			return v
		}
	}
	return view{}
}

// fields reads any type of storage: all are plain data.
func fields[T any](what string) func(T) []string {
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

// single is for kinds with only one item.
func single(kind disruption.ChangeKind, c machineconfig.Config) view {
	v := view{exists: true, plain: kind != disruption.KindFirstBootKargs}
	switch kind {
	case disruption.KindKargs, disruption.KindExtensions:
		v.attrs = listOf(kind, c)
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

func group(g ign.PasswdGroup) []string {
	lines := append(number("gid", g.Gid), password(g.PasswordHash)...)
	lines = append(lines, flags(map[string]*bool{"system": g.System})...)
	return append(lines, absent(g.ShouldExist)...)
}

func lookup[T interface{ Key() string }](list []T, name string, read func(T) []string) view {
	for _, item := range list {
		if item.Key() == name {
			return view{exists: true, attrs: read(item)}
		}
	}
	return view{}
}

func (x index) file(path string) view {
	f := x.files[path]
	if f == nil {
		return view{}
	}
	v := view{exists: true, attrs: append([]string{"mode " + mode(f.Mode, 0o644)}, owner(f.Node)...)}
	if f.Contents.Source == nil {
		v.unset = append(unset(f.Mode == nil, f.Node), contentsPart)
	}
	v.parts = append(v.parts, x.resource("contents", path, f.Contents))
	for i, r := range f.Append {
		v.parts = append(v.parts, x.resource(fmt.Sprintf("append %d", i+1), path, r))
	}
	return v
}

func (x index) resource(name, path string, r ign.Resource) part {
	if found, unresolved, err := machineconfig.SecretsOf(r); unresolved && err == nil {
		p := unresolvedPart(name, path, found, x.Marked)
		if p.encrypted != nil && !p.marked && x.Decrypt != nil {
			p.plain, _ = x.Decrypt(found.Format, found.Body) // the difference says what is not decrypted
		}
		return p
	}
	if remote, is, err := machineconfig.RemoteOf(r); is && err == nil {
		return remotePart(name, remote, x.Sizes.Of(remote))
	}
	content, err := machineconfig.Contents(r)
	if err != nil {
		content = []byte("(unreadable: " + err.Error() + ")\n")
	}
	return newPart(name, path, content, x.Marked)
}

// unresolvedPart is for contents that the server resolves. A template is shown as it is, because it has no values; if
// its path is marked as secret, only its references are.
func unresolvedPart(name, path string, c machineconfig.SecretContent, marked secretmask.Paths) part {
	if c.Format != "" {
		p := part{name: name, content: c.Body, shown: secretmask.Masked{Text: string(c.Body)}}
		if d, err := document.Parse(document.Format(c.Format), c.Body); err == nil {
			p.encrypted, p.marked = &d, marked.Match(path)
		}
		return p
	}
	text := c.Template
	if marked.Match(path) {
		text = ""
		for _, r := range c.References() {
			text += "${" + r.String() + "}\n"
		}
	}
	if !strings.Contains(text, "\n") {
		text += "\n" // one reference has no end of line
	}
	return part{name: name, content: []byte(c.Template), shown: secretmask.Masked{Text: text}}
}

// remotePart says what a node downloads. A review does not read the contents. The query of the address may be secret.
func remotePart(name string, r machineconfig.Remote, size int64) part {
	about := "size unknown"
	if size > 0 {
		about = machineconfig.SizeText(size)
	}
	if r.Gzip {
		about += ", compressed"
	}
	from := machineconfig.ShownAddress(r.URL)
	if _, isStored := machineconfig.StoredHash(r.URL); isStored {
		from = "from " + from
	}
	text := fmt.Sprintf("downloads %s (%s)\n%s\n", from, about, r.Hash)
	return part{name: name, content: []byte(text), shown: secretmask.Masked{Text: text}}
}

func mode(m *int, otherwise int) string {
	if m != nil {
		otherwise = *m
	}
	return fmt.Sprintf("%04o", otherwise)
}

func owner(n ign.Node) []string {
	id := func(name *string, id *int) string {
		switch {
		case id != nil && *id != 0:
			return fmt.Sprint(*id)
		case id == nil && name != nil && *name != "":
			return *name
		default:
			return "root"
		}
	}
	return []string{"owner " + id(n.User.Name, n.User.ID) + ":" + id(n.Group.Name, n.Group.ID)}
}

func (x index) unit(name string) view {
	u := x.units[name]
	if u == nil {
		return view{}
	}
	v := view{exists: true, attrs: []string{unsetState}}
	if u.Enabled != nil {
		v.attrs[0] = "state " + map[bool]string{true: "enabled", false: "disabled"}[*u.Enabled]
	}
	if u.Mask != nil && *u.Mask {
		v.attrs[0] = "state masked: never starts"
	}
	add := func(name, at string, contents *string) {
		if contents != nil {
			v.parts = append(v.parts, newPart(name, at, []byte(*contents), x.Marked))
		}
	}
	add(contentsPart, u.Name, u.Contents)
	for _, d := range u.Dropins {
		add("drop-in "+d.Name, u.Name+".d/"+d.Name, d.Contents)
	}
	return v
}

// unsetState: the config has no setting for it.
const unsetState = "state not set"

// withUnsetState says what an update does to the state of a unit that the new config does not set.
func withUnsetState(p contentPair) contentPair {
	if len(p.to.attrs) == 0 || p.to.attrs[0] != unsetState {
		return p
	}
	hasContents := slices.ContainsFunc(p.to.parts, func(t part) bool { return t.name == contentsPart })
	switch {
	case p.from.exists && p.from.attrs[0] != unsetState:
		p.to.attrs = []string{"state as it was before a config set it"}
	case !p.from.exists && hasContents:
		p.to.attrs = []string{"state unchanged; a new unit gets its preset"}
	case !p.from.exists:
		p.to.attrs = []string{"state unchanged"}
	}
	return p
}

// unset names the attributes that the config leaves to the machine.
func unset(mode bool, n ign.Node) (names []string) {
	if mode {
		names = append(names, "mode")
	}
	if n.User.ID == nil && (n.User.Name == nil || *n.User.Name == "") {
		names = append(names, "user")
	}
	if n.Group.ID == nil && (n.Group.Name == nil || *n.Group.Name == "") {
		names = append(names, "group")
	}
	return names
}

// withUnset names what one config leaves to the machine and the other does not, because an update overwrites it.
func withUnset(p contentPair) contentPair {
	if !p.from.exists || !p.to.exists {
		return p
	}
	add := func(v *view, other view) {
		for _, name := range v.unset {
			if slices.Contains(other.unset, name) {
				continue
			}
			line := name + " unset"
			if i := slices.IndexFunc(v.attrs, func(a string) bool { return strings.HasPrefix(a, name+" ") }); i >= 0 {
				v.attrs[i] = line
			} else {
				v.attrs = append(v.attrs, line)
			}
		}
	}
	add(&p.from, p.to)
	add(&p.to, p.from)
	return p
}

func directory(d ign.Directory) []string {
	return append([]string{"mode " + mode(d.Mode, 0o755)}, owner(d.Node)...)
}

func link(l ign.Link) []string {
	kind := "target "
	if l.Hard != nil && *l.Hard {
		kind = "hard link to "
	}
	target := ""
	if l.Target != nil {
		target = *l.Target
	}
	return append([]string{kind + target}, owner(l.Node)...)
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

// keyFile: it unlocks a volume. Its type says that it is secret.
const keyFile = "keyFile"

// listOf returns the values of a kind that is a list, such as kernel arguments, or nil for any other kind.
func listOf(kind disruption.ChangeKind, c machineconfig.Config) []string {
	switch kind {
	case disruption.KindKargs:
		return machineconfig.SplitKargs(c.KernelArguments)
	case disruption.KindExtensions:
		return slices.Sorted(slices.Values(c.Extensions))
	}
	return nil
}
