package verify

import (
	"bytes"
	"slices"
	"strings"
)

// tagHeader are the headers of a tag, in the order in which git writes them.
var tagHeader = []string{"object", "type", "tag", "tagger"}

// begins are the lines that begin a signature in the message of a tag, as git finds them.
var begins = []string{sshBegin, pgpBegin, "-----BEGIN PGP MESSAGE-----", "-----BEGIN SIGNED MESSAGE-----"}

// splitTag separates the signature at the end of an annotated tag's message from all other bytes. The tag must name a
// commit.
func splitTag(raw []byte) (object, error) {
	end := bytes.Index(raw, []byte("\n\n"))
	if end < 0 || bytes.IndexByte(raw, 0) >= 0 {
		return object{}, tagKind.malformed("its header does not end, or it contains a NUL byte")
	}
	o := object{kind: tagKind, payload: raw, header: map[string]string{}}
	lines := strings.Split(string(raw[:end]), "\n")
	for i, line := range lines {
		key, value, _ := strings.Cut(line, " ")
		if i >= len(tagHeader) || key != tagHeader[i] {
			return object{}, tagKind.malformed("its header line %d begins %.40q; want object, type, tag and tagger, "+
				"once each and in this order", i+1, key)
		}
		o.header[key] = value
	}
	switch {
	case len(lines) < len(tagHeader):
		return object{}, tagKind.malformed("it lacks the header %s", tagHeader[len(lines)])
	case !fullHash.MatchString(o.header["object"]):
		return object{}, tagKind.malformed("its header object is not a SHA-1 hash")
	case o.header["type"] != "commit":
		return object{}, refuse("the tag %.60q names a %.20q, not a commit: tag the commit itself", o.header["tag"],
			o.header["type"])
	}
	at := end + 2
	for offset := at; offset < len(raw); {
		line := raw[offset:]
		if slices.ContainsFunc(begins, func(b string) bool { return bytes.HasPrefix(line, []byte(b)) }) {
			if o.signature != "" {
				return object{}, tagKind.malformed("it has more than one signature")
			}
			o.payload, o.signature = raw[:offset], string(line)
		}
		next := bytes.IndexByte(line, '\n')
		if next < 0 {
			break
		}
		offset += next + 1
	}
	o.message = string(o.payload[at:])
	return o, nil
}
