package review

import (
	"maps"

	ign "github.com/bunsen-os/bunsen/api/ignition"
	"github.com/bunsen-os/bunsen/api/machineconfig"
)

// Download is something that running nodes download before they are drained, unless they have it.
type Download struct {
	// Kind is file or os-image; others may follow.
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"`
	// Source is an address without its query, or the reference of an image.
	Source string `json:"source"`
	// Bytes is for a file of the content store, otherwise 0: a document has an address and a hash, and a review reads
	// nothing from the network.
	Bytes int64 `json:"bytes,omitempty"`
}

// ImageDownload is the Kind of an OS image. Hosts with rpm-ostree download it before the drain, other hosts after it.
const ImageDownload = "os-image"

// DownloadSizes are the sizes of files of the content store in bytes, by their hashes.
type DownloadSizes map[string]int64

// With returns the sizes with those of further files. It does not change the receiver, which several pools share.
func (s DownloadSizes) With(files []machineconfig.LargeFile) DownloadSizes {
	if len(files) == 0 {
		return s
	}
	all := s.Join(nil)
	for _, f := range files {
		all[f.Hash] = f.Size
	}
	return all
}

// Join returns the sizes of both. A hash decides the contents, so it has one size.
func (s DownloadSizes) Join(other DownloadSizes) DownloadSizes {
	all := DownloadSizes{}
	maps.Copy(all, s)
	maps.Copy(all, other)
	return all
}

// Of returns the size of a remote file; 0 if it is not known.
func (s DownloadSizes) Of(r machineconfig.Remote) int64 {
	if _, isStored := machineconfig.StoredHash(r.URL); !isStored {
		return 0
	}
	return s[r.Hash]
}

// downloadsBetween returns what nodes with the old config download for the new one, in its order: not contents whose
// hash the old config has, nor those that it has at a path of the new one.
func downloadsBetween(from, to machineconfig.Config, sizes DownloadSizes) (out []Download) {
	have, wanted := hashesOf(from), machineconfig.RemoteFiles(to)
	files := map[string]ign.Resource{}
	for _, f := range machineconfig.Flattened(from).Ignition.Storage.Files {
		if len(f.Append) == 0 {
			files[f.Path] = f.Contents
		}
	}
	for _, r := range wanted {
		if old, known := files[r.Path]; known && machineconfig.SameContents(old,
			ign.Resource{Source: &r.URL, Verification: ign.Verification{Hash: &r.Hash}}) {
			have[r.Hash] = true
		}
	}
	for _, r := range wanted {
		if !have[r.Hash] {
			have[r.Hash] = true
			out = append(out, Download{
				Kind: "file", Path: r.Path, Source: machineconfig.ShownAddress(r.URL),
				Bytes: sizes.Of(r.Remote),
			})
		}
	}
	if image := to.OSImage(); image != "" && image != from.OSImage() {
		out = append(out, Download{Kind: ImageDownload, Source: image})
	}
	return out
}

func hashesOf(c machineconfig.Config) map[string]bool {
	all := map[string]bool{}
	for _, r := range machineconfig.RemoteFiles(c) {
		all[r.Hash] = true
	}
	return all
}
