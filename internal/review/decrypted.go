package review

import "github.com/bunsen-os/bunsen/api/textdiff"

// decryptedText returns the difference of what an encrypted file decrypts to, if the reader has its key.
func decryptedText(t both) string {
	from, canFrom := decrypted(t.from)
	to, canTo := decrypted(t.to)
	switch {
	case t.from.plain == nil && t.to.plain == nil:
		return ""
	case !canFrom:
		return "# the old content does not decrypt with your key\n"
	case !canTo:
		return "# the new content does not decrypt with your key\n"
	case string(from) == string(to):
		return "# decrypted with your key: nothing changes\n"
	case !isText(from) || !isText(to):
		return "# decrypted with your key: binary content, " + arrow(part{content: from}, part{content: to},
			sizeAndDigest) + "\n"
	}
	return "# decrypted with your key\n" + textdiff.Unified(from, to)
}

// decrypted returns what a node gets, and whether that is known.
func decrypted(p part) ([]byte, bool) {
	if p.encrypted == nil {
		return p.content, true
	}
	return p.plain, p.plain != nil
}
