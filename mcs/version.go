package mcs

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-semver/semver"
	v22 "github.com/coreos/ignition/config/v2_2"
	v30 "github.com/coreos/ignition/v2/config/v3_0"
	v31 "github.com/coreos/ignition/v2/config/v3_1"
	v32 "github.com/coreos/ignition/v2/config/v3_2"
	v33 "github.com/coreos/ignition/v2/config/v3_3"
	v34 "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/vcontext/report"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Version is a version of the Ignition spec that the server supports, as in ignition.version. The zero value is
// invalid.
type Version string

// The supported versions of the Ignition spec, oldest first.
const (
	V2_2 Version = "2.2.0"
	V3_0 Version = "3.0.0"
	V3_1 Version = "3.1.0"
	V3_2 Version = "3.2.0"
	V3_3 Version = "3.3.0"
	V3_4 Version = "3.4.0"
	V3_5 Version = "3.5.0"
)

// Newest is the version of every rendered config, for clients that name no version, or a later 3.x: Ignition reads all
// earlier versions of its major version.
const Newest = V3_5

// Versions lists the supported versions, oldest first.
func Versions() []Version {
	all := make([]Version, len(specs))
	for i, d := range specs {
		all[i] = d.version
	}
	return all
}

// UnsupportedVersionError says that a client requested a version that the server does not support.
type UnsupportedVersionError struct {
	// as the client wrote it
	Asked string
}

// Error names the unsupported version and the supported versions.
func (e *UnsupportedVersionError) Error() string {
	return fmt.Sprintf("Ignition version %q is not served: ask for one of %s", e.Asked, supported())
}

// UnsupportedFieldsError says that a config uses fields that the requested version lacks. A machine that boots without
// them would differ from the config.
type UnsupportedFieldsError struct {
	// of the rendered config
	Config string
	// requested by the client
	Version Version
	// those that Version does not have, such as storage.luks[root].cex.enabled; never empty
	Fields []string
}

// Error names config, version and every field.
func (e *UnsupportedFieldsError) Error() string {
	return fmt.Sprintf("Ignition %s does not support these fields of config %s: %s; "+
		"boot an image with a newer Ignition (up to %s), or change the fields", e.Version, e.Config,
		strings.Join(e.Fields, ", "), Newest)
}

func supported() string {
	var words []string
	for _, v := range Versions() {
		words = append(words, string(v))
	}
	return strings.Join(words, ", ")
}

// Negotiate selects the version to serve for an Accept header, by its entries of Ignition's subtype with a readable
// version: the one with the highest q, or the first of them, decides. If the server does not support it, the error is
// an *UnsupportedVersionError. Without such an entry, the version is Newest.
func Negotiate(accept string) (Version, error) {
	asked := parseAccept(accept)
	slices.SortStableFunc(asked, func(a, b acceptEntry) int {
		switch {
		case a.q > b.q:
			return -1
		case a.q < b.q:
			return 1
		}
		return 0
	})
	for _, a := range asked {
		if a.version != nil {
			return versionToServe(a)
		}
	}
	return Newest, nil
}

// subtype: the server ignores the main type.
const subtype = "vnd.coreos.ignition+json"

func versionToServe(a acceptEntry) (Version, error) {
	major, minor := a.version.Major, a.version.Minor
	switch {
	case major == 3 && minor < int64(len(minors)):
		return minors[minor], nil
	case major == 3:
		return Newest, nil
	case major == 2 && minor >= 2 && minor <= 9:
		return V2_2, nil
	}
	return "", &UnsupportedVersionError{Asked: a.text}
}

// minors: 3.x, by the minor number
var minors = []Version{V3_0, V3_1, V3_2, V3_3, V3_4, V3_5}

type acceptEntry struct {
	q       float64
	version *semver.Version // version is nil if the entry names no version of Ignition.
	text    string          // text is the version as the client wrote it.
}

func parseAccept(accept string) []acceptEntry {
	var all []acceptEntry
	for entry := range strings.SplitSeq(accept, ",") {
		media, params, _ := strings.Cut(entry, ";")
		_, sub, ok := strings.Cut(strings.TrimSpace(media), "/")
		if !ok {
			continue
		}
		a := acceptEntry{q: 1}
		for param := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(param, "=")
			value = strings.TrimSpace(value)
			switch strings.TrimSpace(key) {
			case "q":
				a.q = quality(value)
			case "version":
				if v, err := semver.NewVersion(value); err == nil && sub == subtype && v.Minor >= 0 {
					a.version, a.text = v, value
				}
			}
		}
		all = append(all, a)
	}
	return all
}

// quality parses q; an invalid value counts as 1.
func quality(text string) float64 {
	if q, err := strconv.ParseFloat(text, 64); err == nil && q >= 0 && q <= 1 {
		return q
	}
	return 1
}

// AcceptsGzip reports whether to compress a response, by its Accept-Encoding header (RFC 9110, section 12.5.3): gzip
// needs at least the weight of identity. A client that names no coding gets an uncompressed response, because it may
// not support gzip. Invalid entries are ignored.
func AcceptsGzip(accept string) (gzip bool) {
	const unnamed = -1
	zipped, plain, any := float64(unnamed), float64(unnamed), float64(unnamed)
	for entry := range strings.SplitSeq(accept, ",") {
		coding, params, _ := strings.Cut(entry, ";")
		q, ok := parseWeight(params)
		if !ok {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip": // The names gzip and x-gzip mean the same coding.
			zipped = max(zipped, q)
		case "identity":
			plain = max(plain, q)
		case "*":
			any = max(any, q)
		}
	}
	if plain == unnamed && any == 0 {
		plain = 0 // An entry * with the weight 0 also excludes identity.
	}
	if zipped == unnamed && plain == 0 {
		zipped = any // The header excludes identity, so the entry * can only mean gzip.
	}
	return zipped > 0 && zipped >= plain
}

// parseWeight reads the weight q of a coding. No other parameter is valid.
func parseWeight(params string) (float64, bool) {
	name, value, found := strings.Cut(params, "=")
	if !found {
		return 1, strings.TrimSpace(params) == ""
	}
	if !strings.EqualFold(strings.TrimSpace(name), "q") {
		return 0, false
	}
	q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	return q, err == nil && q >= 0 && q <= 1
}

// spec is one version of the Ignition spec. Versions of 3.x only add fields, so a config of the newest is valid in an
// older one if its types have all fields of the config, and its parser accepts all values. The method convert tests
// that instead of translating step by step. Version 2.2.0 has another structure, to which the type translation
// translates.
type spec struct {
	version Version
	// The version has the field kernelArguments.
	kernelArguments bool
	// It supports setuid, setgid and sticky bits in modes.
	specialModes bool
	// Ignition decompresses data: URLs, which it does since 2.3.
	gzipDataURLs bool
	// through the version's own types, so that fields that they lack are gone
	recode func([]byte) ([]byte, error)
	// the version's own parser
	parse func([]byte) (report.Report, error)
}

// specs: oldest first
var specs = []spec{
	{version: V2_2}, // The function convertTo22 writes version 2.2.0.
	{V3_0, false, false, false, recode(v30.Parse), parse(v30.Parse)},
	{V3_1, false, false, true, recode(v31.Parse), parse(v31.Parse)},
	{V3_2, false, false, true, recode(v32.Parse), parse(v32.Parse)},
	{V3_3, true, false, true, recode(v33.Parse), parse(v33.Parse)},
	{V3_4, true, true, true, recode(v34.Parse), parse(v34.Parse)},
	{V3_5, true, true, true, recode(ign.Parse), parse(ign.Parse)},
}

func specOf(v Version) (spec, bool) {
	i := slices.IndexFunc(specs, func(d spec) bool { return d.version == v })
	if i < 0 {
		return spec{}, false
	}
	return specs[i], true
}

type parser[T any] func([]byte) (T, report.Report, error)

func recode[T any](parser[T]) func([]byte) ([]byte, error) {
	return func(raw []byte) ([]byte, error) {
		var config T
		if err := json.Unmarshal(raw, &config); err != nil {
			return nil, err
		}
		return json.Marshal(config)
	}
}

func parse[T any](p parser[T]) func([]byte) (report.Report, error) {
	return func(raw []byte) (report.Report, error) {
		_, rpt, err := p(raw)
		return rpt, err
	}
}

func (d spec) write(config machineconfig.Config, name string) ([]byte, error) {
	if bad := machineconfig.Validate(config); len(bad) > 0 {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, bad.Err())
	}
	raw, err := config.IgnitionJSON()
	if err != nil {
		return nil, fmt.Errorf("composing Ignition from config %s: %w", name, err)
	}
	body, unsupported, err := d.convert(raw)
	if err != nil {
		return nil, fmt.Errorf("converting config %s to Ignition %s: %w", name, d.version, err)
	}
	if len(unsupported) > 0 {
		return nil, &UnsupportedFieldsError{Config: name, Version: d.version, Fields: unsupported}
	}
	return body, nil
}

// moveKernelArguments moves those of the Ignition config to the MachineConfig's, for the encapsulated config. Those
// under shouldNotExist stay, and are reported as unsupported.
func moveKernelArguments(c machineconfig.Config) machineconfig.Config {
	c.KernelArguments = slices.Clone(c.KernelArguments)
	for _, arg := range c.Ignition.KernelArguments.ShouldExist {
		if !slices.Contains(c.KernelArguments, string(arg)) {
			c.KernelArguments = append(c.KernelArguments, string(arg))
		}
	}
	c.Ignition.KernelArguments.ShouldExist = nil
	return c
}

// decompressFiles keeps the hashes, which are those of decompressed contents.
func decompressFiles(files []ign.File) []ign.File {
	files = slices.Clone(files)
	for i := range files {
		files[i].Contents = decompress(files[i].Contents)
		files[i].Append = slices.Clone(files[i].Append)
		for j, a := range files[i].Append {
			files[i].Append[j] = decompress(a)
		}
	}
	return files
}

func decompress(r ign.Resource) ign.Resource {
	if r.Compression == nil || *r.Compression == "" {
		return r
	}
	data, err := machineconfig.Contents(r)
	if err != nil {
		return r // Either the contents are remote, or Ignition reports what is wrong with the contents.
	}
	source := "data:;base64," + base64.StdEncoding.EncodeToString(data)
	r.Source, r.Compression = &source, nil
	return r
}

// convert writes a valid config of the newest version in the spec's, and returns the fields that it does not have.
func (d spec) convert(newest []byte) (body []byte, unsupported []string, err error) {
	if d.version == Newest {
		return newest, nil, nil
	}
	config, err := tree(newest)
	if err != nil {
		return nil, nil, err
	}
	if d.version == V2_2 {
		return convertTo22(config)
	}
	kept, err := d.recode(newest)
	if err != nil {
		return nil, nil, err
	}
	known, err := tree(kept)
	if err != nil {
		return nil, nil, err
	}
	unsupported = missingFields("", config, known)
	if !d.specialModes {
		unsupported = append(unsupported, specialModes(config)...)
	}
	if len(unsupported) > 0 {
		return nil, unsupported, nil
	}
	if head, ok := config["ignition"].(map[string]any); ok {
		head["version"] = string(d.version)
	}
	if body, err = json.Marshal(config); err != nil {
		return nil, nil, err
	}
	unsupported, err = d.rejectedFields(body, config)
	return body, unsupported, err
}

// rejectedFields have values that the version's own parser rejects, such as a URL's scheme.
func (d spec) rejectedFields(body []byte, config map[string]any) ([]string, error) {
	rpt, err := d.parse(body)
	if err == nil {
		return nil, nil
	}
	var fields []string
	for _, e := range rpt.Entries {
		if e.Kind.IsFatal() {
			fields = append(fields, fmt.Sprintf("%s (%s)", fieldPath(config, e.Context.Path), e.Message))
		}
	}
	if len(fields) > 0 {
		return fields, nil
	}
	return nil, err
}

// CheckBy returns nil if the parser of a version accepts a config without a remark, even a warning.
func CheckBy(v Version, raw []byte) error {
	var found fmt.Stringer
	var err error
	if v == V2_2 {
		_, found2, err2 := v22.Parse(raw)
		found, err = found2, err2
	} else {
		d, ok := specOf(v)
		if !ok {
			return &UnsupportedVersionError{Asked: string(v)}
		}
		found, err = d.parse(raw)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, found)
	}
	if text := found.String(); text != "" {
		return errors.New(text)
	}
	return nil
}

func tree(raw []byte) (map[string]any, error) {
	var t map[string]any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // UseNumber is necessary so that an int64 keeps its value.
	err := dec.Decode(&t)
	return t, err
}

// defaults: values of newer fields that mean the same as no field, by the end of the field's path.
var defaults = []struct {
	end   string
	value bool
}{
	{"].shouldExist", true},         // In passwd since 3.2: users and groups exist. In partitions since 3.0.
	{"].wipePartitionEntry", false}, // In partitions since 3.0.
	{"].resize", false},             // In partitions since 3.2.
	{"].discard", false},            // In luks since 3.4.
	{".cex.enabled", false},         // In luks since 3.5.
}

// missingFields returns the fields of config that known does not have, and removes those with a default value from
// config.
func missingFields(at string, config, known any) []string {
	var fields []string
	switch config := config.(type) {
	case map[string]any:
		other, _ := known.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(config)) {
			fields = append(fields, missingField(joinPath(at, key), config, key, other)...)
		}
	case []any:
		other, _ := known.([]any)
		for i, item := range config {
			var match any
			if i < len(other) {
				match = other[i]
			}
			fields = append(fields, missingFields(at+"["+label(item, i)+"]", item, match)...)
		}
	default:
		if known == nil && config != nil {
			return []string{at}
		}
	}
	return fields
}

// missingField returns one path for a missing list, and the paths of its fields for a missing struct.
func missingField(at string, config map[string]any, key string, known map[string]any) []string {
	if other, ok := known[key]; ok {
		return missingFields(at, config[key], other)
	}
	for _, d := range defaults {
		if strings.HasSuffix(at, d.end) && config[key] == d.value {
			delete(config, key)
			return nil
		}
	}
	fields := missingFields(at, config[key], nil)
	if len(fields) == 0 {
		delete(config, key)
	}
	if _, list := config[key].([]any); list && len(fields) > 0 {
		return []string{at}
	}
	return fields
}

// specialModes names the files and directories with setuid, setgid or sticky bits.
func specialModes(config map[string]any) []string {
	var fields []string
	storage, _ := config["storage"].(map[string]any)
	for _, kind := range []string{"directories", "files"} {
		nodes, _ := storage[kind].([]any)
		for i, node := range nodes {
			n, _ := node.(map[string]any)
			number, _ := n["mode"].(json.Number)
			if mode, err := number.Int64(); err == nil && mode&0o7000 != 0 {
				fields = append(fields, fmt.Sprintf("storage.%s[%s].mode %#o", kind, label(node, i), mode))
			}
		}
	}
	return fields
}

// fieldPath writes a path of a parser's report as missingFields does.
func fieldPath(config any, path []any) string {
	at := ""
	for _, step := range path {
		switch step := step.(type) {
		case int:
			list, _ := config.([]any)
			config = nil
			if step < len(list) {
				config = list[step]
			}
			at += "[" + label(config, step) + "]"
		default:
			key := fmt.Sprint(step)
			fields, _ := config.(map[string]any)
			config = fields[key]
			at = joinPath(at, key)
		}
	}
	return at
}

func joinPath(at, key string) string {
	if at == "" {
		return key
	}
	return at + "." + key
}

// label is the path, name or device of an item of a list, or its index.
func label(item any, index int) string {
	fields, _ := item.(map[string]any)
	for _, key := range []string{"path", "name", "device"} {
		if text, ok := fields[key].(string); ok && text != "" {
			return text
		}
	}
	return fmt.Sprint(index)
}
