package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	gittransport "github.com/go-git/go-git/v5/plumbing/transport"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/git/objects"
	"github.com/bunsen-os/bunsen/source/git/transport"
)

// readAdvertisement reads the refs that a server of version 0 sends first. An empty repository has no refs.
func readAdvertisement(r io.Reader) (*packp.AdvRefs, error) {
	adv := packp.NewAdvRefs()
	err := adv.Decode(r)
	if errors.Is(err, packp.ErrEmptyAdvRefs) || err == nil && adv.IsEmpty() {
		return packp.NewAdvRefs(), nil
	}
	if err != nil {
		return nil, withoutAnswer(err, "the list of refs")
	}
	gittransport.FilterUnsupportedCapabilities(adv.Capabilities)
	return adv, nil
}

// withoutAnswer replaces an error of the library about what a server sent, because its text contains a part of the
// answer. The parameter want is what the library expected.
func withoutAnswer(err error, want string) error {
	var connection net.Error
	var refused *pktline.ErrorLine
	var unexpected *packp.ErrUnexpectedData
	var known *fault.Error
	switch {
	case errors.As(err, &refused):
		return &transport.RefusedError{Text: source.Line(refused.Text)}
	case errors.As(err, &connection), errors.As(err, &known), is(io.EOF, io.ErrUnexpectedEOF, packp.ErrEmptyInput,
		pktline.ErrInvalidPktLen, transport.ErrTooLarge, context.Canceled, context.DeadlineExceeded)(err):
		return err
	case errors.As(err, &unexpected) && unexpected.Msg == "no space after hash":
		return errLongHash
	}
	return fmt.Errorf("%w: expected %s in version 0 of the protocol", transport.ErrInvalid, want)
}

// errLongHash is the error for refs whose hashes are longer than those of SHA-1.
var errLongHash = errors.New("the list of refs has no space after hash of SHA-1")

// session0 is a session in version 0 of the protocol. session0 serves one request.
type session0 struct {
	session
	adv *packp.AdvRefs
}

// version0 reads the refs of a session whose server does not speak version 2.
func version0(s session, first io.Reader) (session0, error) {
	adv, err := readAdvertisement(first)
	if err != nil {
		return session0{}, s.Explain(err)
	}
	_ = s.read(nil)
	return session0{s, adv}, nil
}

// again opens another session with a server that does not speak version 2.
func (r remoteRepository) again(ctx context.Context) (session0, error) {
	s, first, err := r.dial(ctx)
	switch {
	case err == nil:
		return session0{}, errors.Join(errors.New("the server speaks another version of the protocol than before"),
			s.Close())
	case !errors.Is(err, errVersion0):
		return session0{}, err
	}
	next, err := version0(s, first)
	if err != nil {
		return session0{}, errors.Join(err, s.Close())
	}
	return next, nil
}

// fetchVersion0 requests one commit with all its files from a server that does not speak version 2. If the server
// refuses the commit because no ref points at it, fetchVersion0 requests the history of the ref.
func (r remoteRepository) fetchVersion0(ctx context.Context, p source.Picked, s session0,
	folder *objects.Folder,
) error {
	want := plumbing.NewHash(p.Hash)
	if folder.HasEncodedObject(want) == nil {
		return nil
	}
	if len(s.adv.References) == 0 {
		return commitNotFound(p, "the repository is empty")
	}
	limits := r.limits
	err := s.receive(ctx, request0{wants: []plumbing.Hash{want}, depth: 1}, folder, &limits)
	if err == nil || ctx.Err() != nil || fault.Of(err, "").Kind == fault.Stalled || isTip(s.adv, want) {
		return err
	}
	return r.fetchHistory(ctx, p, folder)
}

// fetchHistory fetches the history of the picked ref, which must contain the commit. If the ref does not exist,
// fetchHistory fetches all branches and tags.
func (r remoteRepository) fetchHistory(ctx context.Context, p source.Picked, folder *objects.Folder) error {
	s, err := r.again(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	wants := tipsOf(s.adv, p)
	if len(wants) == 0 {
		return commitNotFound(p, "the repository has no branch and no tag")
	}
	limits := r.limits
	if err := s.receive(ctx, request0{wants: wants}, folder, &limits); err != nil {
		return err
	}
	if folder.HasEncodedObject(plumbing.NewHash(p.Hash)) != nil {
		return commitNotFound(p, "no branch or tag of the server contains it")
	}
	return nil
}

// tipsOf returns the commit of the picked ref. If the ref does not exist, tipsOf returns the commits of all branches
// and tags.
func tipsOf(adv *packp.AdvRefs, p source.Picked) []plumbing.Hash {
	if hash, ok := adv.References[p.FullName]; ok {
		return []plumbing.Hash{hash}
	}
	var wants []plumbing.Hash
	for name, hash := range adv.References {
		if strings.HasPrefix(name, "refs/heads/") || strings.HasPrefix(name, "refs/tags/") {
			wants = append(wants, hash)
		}
	}
	plumbing.HashesSort(wants)
	return slices.Compact(wants)
}

// isTip reports whether a ref points at the commit.
func isTip(adv *packp.AdvRefs, want plumbing.Hash) bool {
	return slices.Contains(slices.Collect(maps.Values(adv.References)), want)
}

// request0 returns a request in version 0. A depth of 0 requests the whole history.
type request0 struct {
	wants  []plumbing.Hash
	depth  int
	filter string
}

func (r request0) upload(server *capability.List) (*packp.UploadPackRequest, error) {
	req := packp.NewUploadPackRequestFromCapabilities(server)
	req.Wants = r.wants
	if r.depth > 0 && server.Supports(capability.Shallow) {
		if err := req.Capabilities.Set(capability.Shallow); err != nil {
			return nil, err
		}
		req.Depth = packp.DepthCommits(r.depth)
	}
	if r.filter != transport.NoFilter {
		if err := req.Capabilities.Set(capability.Filter); err != nil {
			return nil, err
		}
		req.Filter = packp.Filter(r.filter)
	}
	if server.Supports(capability.NoProgress) {
		if err := req.Capabilities.Set(capability.NoProgress); err != nil {
			return nil, err
		}
	}
	return req, req.Validate()
}

// receive requests objects and adds them to a folder. receive subtracts the received bytes and objects from the limits.
func (s session0) receive(ctx context.Context, r request0, into *objects.Folder, limits *objects.Limits) error {
	req, err := r.upload(s.adv.Capabilities)
	if err != nil {
		return err
	}
	var body bytes.Buffer
	if err := req.UploadRequest.Encode(&body); err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	if err := pktline.NewEncoder(&body).EncodeString("done\n"); err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	answer, err := s.Request(ctx, body.Bytes())
	if err != nil {
		return err
	}
	defer answer.Close()
	res := packp.NewUploadPackResponse(req)
	if err := res.Decode(answer); err != nil {
		return s.Explain(withoutAnswer(err, "the beginning of a pack"))
	}
	var stream io.Reader = res
	switch {
	case req.Capabilities.Supports(capability.Sideband64k):
		stream = sideband.NewDemuxer(sideband.Sideband64k, res)
	case req.Capabilities.Supports(capability.Sideband):
		stream = sideband.NewDemuxer(sideband.Sideband, res)
	}
	// Add waits for memory, so the session must hold none: all that hold some could wait for each other.
	s.release()
	n, err := into.Add(ctx, stream, *limits)
	limits.Bytes -= n
	return err
}
