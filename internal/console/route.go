package console

import (
	"net/http"
	"net/url"
	"strings"
)

// route is the pattern of a path, such as `/pool/{pool}`, with the page for it.
type route struct {
	pattern string
	page    pageFunc
}

// find returns the page for the path of a request, and sets the values of its pattern on the request. find returns nil
// if there is none.
func find(routes []route, r *http.Request) pageFunc {
	for _, route := range routes {
		if values, ok := match(route.pattern, r.URL.EscapedPath()); ok {
			for name, value := range values {
				r.SetPathValue(name, value)
			}
			return route.page
		}
	}
	return nil
}

// match compares a path with a pattern, part by part. A value is one part of the path, and may contain an escaped
// slash. A value is neither empty nor a path, and it has no control characters.
func match(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	values := map[string]string{}
	for i, part := range want {
		name, isValue := strings.CutPrefix(part, "{")
		if !isValue {
			if part != got[i] {
				return nil, false
			}
			continue
		}
		value, err := url.PathUnescape(got[i])
		if err != nil || value == "" || value == "." || value == ".." || strings.ContainsFunc(value, isControl) {
			return nil, false
		}
		values[strings.TrimSuffix(name, "}")] = value
	}
	return values, true
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }
