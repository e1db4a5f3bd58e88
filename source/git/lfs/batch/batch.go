package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

const (
	// MediaType is the media type of requests and answers of the batch API.
	MediaType = "application/vnd.git-lfs+json"
	// MaxObjects is how many objects one request may name.
	MaxObjects = 100
	// MaxAnswerBytes is the size of the largest answer of the batch API, in bytes.
	MaxAnswerBytes = 4 << 20

	maxAddress = 8 << 10
	maxHeaders = 20

	codeNotFound, codeGone = 404, 410
)

// Address returns the address of the batch API of a repository. The address of the repository may end with .git.
func Address(repository string) string {
	return strings.TrimSuffix(repository, ".git") + ".git/info/lfs/objects/batch"
}

type object struct {
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

type request struct {
	Operation string   `json:"operation"`
	Transfers []string `json:"transfers"`
	Objects   []object `json:"objects"`
	HashAlgo  string   `json:"hash_algo"`
}

// Request returns the body of a request that asks for the addresses of objects.
func Request(wanted []Pointer) ([]byte, error) {
	r := request{Operation: "download", Transfers: []string{"basic"}, HashAlgo: "sha256"}
	for _, p := range wanted {
		r.Objects = append(r.Objects, object{p.Hex(), p.Size})
	}
	return json.Marshal(r)
}

// Place is where an object is.
type Place struct {
	// URL of the object; its scheme is https.
	URL *url.URL
	// Header has the headers that the server requires in a request for the object.
	Header map[string]string
}

// MissingError is the error for an object that the server does not have.
type MissingError struct {
	// OID of the object.
	OID string
}

// Error names the object.
func (e *MissingError) Error() string {
	return fmt.Sprintf("the server does not have object %s: run git lfs push --all in a clone that has it", e.OID)
}

type answer struct {
	Transfer string     `json:"transfer"`
	HashAlgo string     `json:"hash_algo"`
	Objects  []answered `json:"objects"`
}

type answered struct {
	object
	Actions struct {
		Download *action `json:"download"`
	} `json:"actions"`
	Error *struct {
		Code int `json:"code"`
	} `json:"error"`
}

type action struct {
	Href   string            `json:"href"`
	Header map[string]string `json:"header"`
}

// ParseAnswer returns the places of the wanted objects by their OIDs. No error contains text of the answer.
func ParseAnswer(body []byte, wanted []Pointer) (map[string]Place, error) {
	var a answer
	if json.Unmarshal(body, &a) != nil {
		return nil, errors.New("the answer is not one of Git LFS")
	}
	if a.Transfer != "" && a.Transfer != "basic" {
		return nil, errors.New("the server does not offer the transfer basic: allow it on the server")
	}
	if a.HashAlgo != "" && a.HashAlgo != "sha256" {
		return nil, errors.New("the server names objects by another hash than SHA-256")
	}
	byOID := map[string]answered{}
	for _, o := range a.Objects {
		byOID[o.OID] = o
	}
	places := map[string]Place{}
	for _, p := range wanted {
		place, err := placeOf(p, byOID[p.Hex()])
		if err != nil {
			return nil, err
		}
		places[p.Hex()] = place
	}
	return places, nil
}

func placeOf(p Pointer, o answered) (Place, error) {
	switch {
	case o.Error != nil && (o.Error.Code == codeNotFound || o.Error.Code == codeGone), o.OID == "":
		return Place{}, &MissingError{p.Hex()}
	case o.Error != nil:
		return Place{}, fmt.Errorf("the server refuses object %s with code %d", p.Hex(), o.Error.Code)
	case o.Size != p.Size:
		return Place{}, fmt.Errorf("object %s has %d bytes on the server, and %d in its pointer: commit the "+
			"pointer again", p.Hex(), o.Size, p.Size)
	case o.Actions.Download == nil:
		return Place{}, &MissingError{p.Hex()}
	}
	at, err := ParseURL(o.Actions.Download.Href)
	if err != nil {
		return Place{}, fmt.Errorf("the address of object %s: %w", p.Hex(), err)
	}
	header, err := headerOf(o.Actions.Download.Header)
	if err != nil {
		return Place{}, fmt.Errorf("the address of object %s: %w", p.Hex(), err)
	}
	return Place{at, header}, nil
}

// ParseURL reads an address that a server gave. The error contains no part of the address.
func ParseURL(raw string) (*url.URL, error) {
	if len(raw) > maxAddress {
		return nil, fmt.Errorf("it has more than %d bytes", maxAddress)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Opaque != "" || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "":
		return nil, errors.New("it is not an address of https")
	case u.Scheme != "https":
		return nil, errors.New("it begins with http://, which is not encrypted: set the https address in the " +
			"server's settings")
	case u.User != nil:
		return nil, errors.New("it has a user or password")
	}
	return u, nil
}

// ownHeaders are the headers that a client writes itself.
var ownHeaders = []string{
	"connection", "content-length", "cookie", "expect", "host", "keep-alive", "proxy-authorization", "proxy-connection",
	"range", "te",
	"trailer", "transfer-encoding", "upgrade",
}

func headerOf(given map[string]string) (map[string]string, error) {
	if len(given) > maxHeaders {
		return nil, fmt.Errorf("it has more than %d headers", maxHeaders)
	}
	h := map[string]string{}
	for name, value := range given {
		if slices.Contains(ownHeaders, strings.ToLower(name)) {
			continue
		}
		if !isToken(name) || len(value) > maxAddress || strings.ContainsFunc(value, func(r rune) bool {
			return r < ' ' || r == 0x7f
		}) {
			return nil, errors.New("it has an invalid header")
		}
		h[name] = value
	}
	return h, nil
}

// isToken reports whether a text is a name of a header (RFC 9110, 5.6.2).
func isToken(name string) bool {
	return name != "" && len(name) < 100 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}
