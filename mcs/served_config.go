package mcs

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/machineconfig"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
)

// ServedFormat selects one response body of a config.
type ServedFormat struct {
	Version  Version
	Gzip     bool
	Withhold bool
}

// ServedConfig is what one pool serves: one rendered config, and its body in each format. It never changes, so any
// number of requests share it. Pools creates it.
type ServedConfig struct {
	// of the rendered config, and the configs of single nodes
	name  string
	nodes v1alpha1.NodeConfigs
	input Input
	// an error for content that no machine may boot
	check func() error
	// those that were requested last; each function creates its body on the first call
	bodies *lru.Cache[bodyKey, func() (ServedBody, error)]
	// Machines with the config read files from the server.
	needsContent bool
}

// maxBodies limits the bodies of a config: each version, encoding and secrecy has one, and each address from which
// machines read files has one of each in an hour.
const maxBodies = 96

// bodyKey selects a body. The fields besides the format are for files that machines read from the server.
type bodyKey struct {
	ServedFormat
	server  string
	ca      string
	expires int64
}

func newConfig(in Input) *ServedConfig {
	c := &ServedConfig{}
	if in.Rendered != nil {
		c.name = in.Rendered.Name
	}
	in.Rendered, c.nodes = asBase(in.Rendered)
	c.needsContent = in.Rendered != nil && NeedsServer(in.Rendered)
	c.input, c.check = in, sync.OnceValue(func() error { return check(in.Rendered) })
	c.bodies = newCache[bodyKey, func() (ServedBody, error)](maxBodies)
	return c
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // The only possible error is a size that is not positive.
	}
	return c
}

// asBase returns a rendered config of a pool as a machine gets it, with the configs of single nodes. A machine without
// its own runs the content under the name of that content.
func asBase(rendered *mcfgv1.MachineConfig) (*mcfgv1.MachineConfig, v1alpha1.NodeConfigs) {
	if rendered == nil {
		return nil, v1alpha1.NodeConfigs{}
	}
	nodes, err := v1alpha1.ParseNodeConfigs(rendered.Annotations[v1alpha1.NodeConfigsAnnotation])
	if err != nil || nodes.IsZero() {
		return rendered, v1alpha1.NodeConfigs{}
	}
	base := *rendered
	base.Name, base.Annotations = nodes.Base, maps.Clone(rendered.Annotations)
	delete(base.Annotations, v1alpha1.NodeConfigsAnnotation)
	return &base, nodes
}

// check repeats the checks from before the rendering, because the server does not trust the author of the rendered
// config.
func check(rendered *mcfgv1.MachineConfig) error {
	config, err := machineconfig.Parse(rendered.Spec)
	if err != nil {
		return nil // Compose reports this error.
	}
	if bad := machineconfig.Check(config); len(bad) > 0 {
		return fmt.Errorf("checking config %s: %w", rendered.Name, bad.Err())
	}
	return nil
}

// Name returns the name of the rendered config.
func (c *ServedConfig) Name() string { return c.name }

// Commit returns the revision that the rendered config comes from, or "" if it comes from no repository.
func (c *ServedConfig) Commit() string {
	return c.input.Rendered.Annotations[v1alpha1.RevisionAnnotation]
}

// Body returns the body in a format, for machines that read files from the server in one way; the access is nil if they
// read none. Those with equal grants share it. The first call creates it, and concurrent ones wait. Errors are those of
// Compose.
func (c *ServedConfig) Body(f ServedFormat, access *ContentAccess) (ServedBody, error) {
	key := bodyKey{ServedFormat: f}
	if access != nil {
		key.server, key.ca, key.expires = access.Server, string(access.CA), access.Expires.Unix()
	}
	body, ok := c.bodies.Get(key)
	if !ok {
		body = sync.OnceValues(func() (ServedBody, error) { return c.create(f, access) })
		if first, isKnown, _ := c.bodies.PeekOrAdd(key, body); isKnown {
			body = first // of a concurrent call
		}
	}
	return body()
}

// create composes a body, or compresses the plain one. If no secret is withheld, the formats with and without Withhold
// share one.
func (c *ServedConfig) create(f ServedFormat, access *ContentAccess) (body ServedBody, err error) {
	defer fault.Recover(&err) // The config of one pool must not end the server.
	if f.Gzip {
		plain, err := c.Body(ServedFormat{Version: f.Version, Withhold: f.Withhold}, access)
		if err != nil {
			return ServedBody{}, err
		}
		return compress(plain), nil
	}
	body, err = c.compose(f, nil, access)
	if err == nil && f.Withhold && len(body.Withheld) == 0 {
		return c.Body(ServedFormat{Version: f.Version}, access)
	}
	return body, err
}

// BodyWithSecrets is Body with resolved contents, for one machine; a new one for each call, because secrets change
// while the config's name stays. The format must not withhold secrets.
func (c *ServedConfig) BodyWithSecrets(f ServedFormat, resolved Secrets,
	access *ContentAccess,
) (body ServedBody, err error) {
	defer fault.Recover(&err)
	if body, err = c.compose(f, &resolved, access); err == nil && f.Gzip {
		body = compress(body)
	}
	return body, err
}

// compose returns a plain body.
func (c *ServedConfig) compose(f ServedFormat, resolved *Secrets, access *ContentAccess) (ServedBody, error) {
	if err := c.check(); err != nil {
		return ServedBody{}, err
	}
	in := c.input
	in.Withhold, in.Secrets = f.Withhold, resolved
	if access != nil {
		in.Content = access
	}
	composed, err := Compose(in, f.Version)
	if err != nil {
		return ServedBody{}, err
	}
	return withETag(ServedBody{Body: composed}), nil
}

// prepare creates bodies before a request needs them: those of the newest version, and of the formats that clients
// requested from the previous config, which may be nil. It returns the error of Servable.
func (c *ServedConfig) prepare(previous *ServedConfig) error {
	formats := []ServedFormat{{Version: Newest, Withhold: true}}
	if previous != nil {
		for _, key := range previous.bodies.Keys() {
			if key.server == "" {
				formats = append(formats, key.ServedFormat)
			}
		}
	}
	for _, f := range formats {
		_, _ = c.Body(f, nil) // Each request gets this error later.
	}
	return c.Servable()
}

// Servable returns why the config cannot be served in the newest version, and so in none, or nil.
func (c *ServedConfig) Servable() error {
	_, err := c.Body(ServedFormat{Version: Newest}, nil)
	return err
}

// anyAccess is for finding out whether a config with files on the server can be served. No machine gets such a body.
func anyAccess() *ContentAccess {
	return &ContentAccess{Server: "https://server.invalid", Grant: func(string) string { return "none" }}
}

// SetContentStore lets machines read files of the content store and of registries from the server of the pools. Before,
// a config with such files cannot be served. Call it before the first Set.
func (p *Pools) SetContentStore() {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.content = anyAccess()
}

// NeedsContent reports whether machines read files of the config from the server, and so need a ContentAccess.
func (c *ServedConfig) NeedsContent() bool { return c.needsContent }

// errToken does not contain the token.
var errToken = errors.New("the body needs a token of 23 characters of a-z, 0-9 and a dot, or none where it has no " +
	"placeholder")

// ServedBody is one complete response body. All requests share it, so do not change it. Head and Tail are the parts
// around the bootstrap token, if it needs one, compressed in a gzip body.
type ServedBody struct {
	Body
	// ETag changes with the config and its format, but not with the token, for which it is weak.
	ETag string
	// ends a gzip body with a token; nil for any other
	trailer *gzipTrailer
}

// Len returns the length of the whole body in bytes, with its token.
func (b ServedBody) Len() int {
	n := b.Body.Len()
	if b.trailer != nil {
		n += gzipTrailerLength
	}
	return n
}

// WriteTo sends the whole body with a machine's bootstrap token, or with "" if it needs none, without a copy. An error
// about the token comes before anything is written. Any other is an error of the writer.
func (b ServedBody) WriteTo(w io.Writer, token string) (int64, error) {
	if !b.fits(token) {
		return 0, errToken
	}
	parts := [][]byte{b.Head, []byte(token), b.Tail}
	if b.trailer != nil {
		parts = append(parts, b.trailer.bytes(token))
	}
	var sent int64
	for _, part := range parts {
		if len(part) == 0 {
			continue
		}
		n, err := w.Write(part)
		sent += int64(n)
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// fits reports whether a token needs no escaping.
func (b ServedBody) fits(token string) bool {
	if !b.NeedsBootstrapToken() {
		return token == ""
	}
	if len(token) != BootstrapTokenLength {
		return false
	}
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' {
			return false
		}
	}
	return true
}

// withETag sets the digest of the whole body except the token.
func withETag(b ServedBody) ServedBody {
	sum := sha256.New()
	sum.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b.Head))))
	sum.Write(b.Head)
	sum.Write(b.Tail)
	b.ETag = `"` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
	if b.NeedsBootstrapToken() {
		b.ETag = "W/" + b.ETag
	}
	return b
}

// RFC 1952, section 2.3. The header says: deflate, no name, no time, unknown system. The trailer has the checksum and
// the size.
const (
	gzipHeader        = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
	gzipTrailerLength = 8
)

// compress creates the gzip body of a plain body.
//
// The token differs for each machine, so it is an uncompressed block between two parts that are compressed only once.
// One response costs the checksum of the part after the token: 8 µs for 200 KB. To compress 1 MB for each takes 8 ms,
// and a whole response, with its TLS handshake, 2 ms: 5,000 machines that boot at once would need five times the CPU.
// It is one gzip member, because some clients, such as curl, do not read a second one.
func compress(plain ServedBody) ServedBody {
	out := ServedBody{Body: Body{Withheld: plain.Withheld}}
	head := bytes.NewBufferString(gzipHeader)
	end := &gzipTrailer{head: crc32.ChecksumIEEE(plain.Head), tail: plain.Tail, size: uint32(plain.Len())}
	if !plain.NeedsBootstrapToken() {
		deflate(head, plain.Head, true)
		head.Write(end.bytes(""))
		out.Head = head.Bytes()
		return withETag(out)
	}
	deflate(head, plain.Head, false)
	head.Write(storedBlock(BootstrapTokenLength))
	var tail bytes.Buffer
	deflate(&tail, plain.Tail, true)
	out.Head, out.Tail, out.trailer = head.Bytes(), tail.Bytes(), end
	return withETag(out)
}

// deflate appends compressed data. The last part ends the stream, any other ends on a byte boundary.
func deflate(to *bytes.Buffer, data []byte, last bool) {
	w, err := flate.NewWriter(to, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil && last {
		err = w.Close()
	} else if err == nil {
		err = w.Flush()
	}
	if err != nil {
		panic(err) // No error is possible, because the level is valid, and a write to a buffer never fails.
	}
}

// storedBlock returns the header of an uncompressed block of n bytes, not the last one (RFC 1951, section 3.2.4).
func storedBlock(n uint16) []byte {
	block := binary.LittleEndian.AppendUint16([]byte{0}, n)
	return binary.LittleEndian.AppendUint16(block, ^n)
}

// gzipTrailer depends on the token in the body.
type gzipTrailer struct {
	head uint32 // head is the checksum of the plain part before the token.
	tail []byte // tail is the plain part after the token.
	size uint32 // size is the length of the plain body.
}

func (t *gzipTrailer) bytes(token string) []byte {
	sum := crc32.Update(t.head, crc32.IEEETable, []byte(token))
	sum = crc32.Update(sum, crc32.IEEETable, t.tail)
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, gzipTrailerLength), sum)
	return binary.LittleEndian.AppendUint32(out, t.size)
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
