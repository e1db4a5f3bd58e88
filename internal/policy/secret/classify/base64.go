package classify

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// DecodeBase64 decodes base64 of both alphabets, with or without padding.
func DecodeBase64(s string) ([]byte, error) {
	s = strings.TrimRight(strings.ReplaceAll(s, "%3D", "="), "=")
	if strings.ContainsAny(s, "-_") {
		return base64.RawURLEncoding.DecodeString(s)
	}
	return base64.RawStdEncoding.DecodeString(s)
}

// IsLogin reports whether a value is user:password in base64.
func IsLogin(v string) bool {
	raw, err := DecodeBase64(v)
	if err != nil {
		return false
	}
	user, password, ok := strings.Cut(string(raw), ":")
	if !ok && strings.HasSuffix(v, "=") && !IsBinary(string(raw)) {
		return true // The value ends with padding, so it is not a name.
	}
	return ok && user != "" && password != "" && !IsBinary(string(raw)) && !strings.ContainsAny(user, "\n{ ")
}

// IsBinary reports whether a content is not a text.
func IsBinary(s string) bool { return !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 }
