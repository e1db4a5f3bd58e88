package console

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"github.com/bunsen-os/bunsen/internal/console/view"
)

// file is a file below /static/.
type file struct {
	content   []byte
	mediaType string
	tag       string
}

// staticFiles reads the files that the program contains.
func staticFiles() map[string]file {
	types := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
		".svg": "image/svg+xml",
	}
	files, from := map[string]file{}, view.Static()
	names, err := fs.Glob(from, "*")
	if err != nil {
		panic(err) // The pattern is valid, so there is no error.
	}
	for _, name := range names {
		content, err := fs.ReadFile(from, name)
		if err != nil {
			panic(fmt.Sprintf("embedded file %s: %v", name, err))
		}
		sum := sha256.Sum256(content)
		mediaType := types[path.Ext(name)]
		if mediaType == "" {
			mediaType = "text/plain; charset=utf-8"
		}
		files[name] = file{content, mediaType, `"` + hex.EncodeToString(sum[:8]) + `"`}
	}
	return files
}

// serveFile answers with a file. The browser stores the file, and asks each time whether the file has changed.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request, name string) {
	f, ok := s.files[name]
	if !ok {
		s.refuse(w, http.StatusNotFound, "there is no file with that path")
		return
	}
	w.Header().Set("Cache-Control", "private, no-cache")
	w.Header().Set("ETag", f.tag)
	limitWrite(w)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", f.mediaType)
	_, _ = w.Write(f.content) // An error means that the browser has closed the connection.
}
