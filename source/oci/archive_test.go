package oci_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bunsen-os/bunsen/api/fault"
	"github.com/bunsen-os/bunsen/api/v1alpha1"
	"github.com/bunsen-os/bunsen/source"
	"github.com/bunsen-os/bunsen/source/oci"
)

// memory collects files.
type memory map[string]string

func (m memory) Write(p string, executable bool, content []byte) error {
	if _, twice := m[p]; twice {
		return fmt.Errorf("%s is written twice", p)
	}
	m[p] = fmt.Sprintf("%v %s", executable, content)
	return nil
}

// entry is a header with its content.
type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry {
	return entry{tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content}
}

func of(kind byte, name, link string) entry {
	return entry{tar.Header{Typeflag: kind, Name: name, Linkname: link, Mode: 0o777}, ""}
}

func archivePack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		e.Size = int64(len(e.content))
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

var limits = source.Limits{Entries: 20, Bytes: 4096, FileBytes: 1024}

func read(t testing.TB, raw []byte, folder string) (memory, *source.Inventory, error) {
	t.Helper()
	into := memory{}
	at := source.Revision{Ref: "v1", Hash: strings.Repeat("a", 64)}
	v, err := oci.ArchiveReader{Folder: folder, At: at, Limits: limits, Into: into}.Read(t.Context(),
		bytes.NewReader(raw))
	return into, v, err
}

// TestWhatAnArchiveMayHold: an archive is refused entry by entry, as a git tree is.
func TestWhatAnArchiveMayHold(t *testing.T) {
	pools := file("pools/a.bu", "a")
	kept := memory{"pools/a.bu": "false a"}
	for name, test := range map[string]struct {
		entries []entry
		folder  string
		files   memory
		refused []source.Refusal
	}{
		"files":                    {[]entry{of(tar.TypeDir, "./", ""), of(tar.TypeDir, "./pools/", ""), file("./pools/a.bu", "a")}, "", kept, nil},
		"no folders":               {[]entry{pools}, "", kept, nil},
		"a folder twice":           {[]entry{of(tar.TypeDir, "pools/", ""), of(tar.TypeDir, "pools", ""), pools}, "", kept, nil},
		"an executable":            {[]entry{{tar.Header{Typeflag: tar.TypeReg, Name: "x", Mode: 0o100}, "x"}}, "", memory{"x": "true x"}, nil},
		"setuid":                   {[]entry{{tar.Header{Typeflag: tar.TypeReg, Name: "x", Mode: 0o4644, Uid: 0}, "x"}}, "", memory{"x": "false x"}, nil},
		"git's own header":         {[]entry{{tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "pax_global_header", PAXRecords: map[string]string{"comment": strings.Repeat("a", 40)}}, ""}, pools}, "", kept, nil},
		"a path above":             {[]entry{file("../evil", "x"), pools}, "", kept, []source.Refusal{{Path: `"..\x2fevil"`, Why: "the path leads out of its folder"}}},
		"a path above, inside":     {[]entry{file("pools/../../evil", "x"), pools}, "", kept, []source.Refusal{{Path: `"pools\x2f..\x2f..\x2fevil"`, Why: "the path leads out of its folder"}}},
		"a path that only looks":   {[]entry{file("pools/../evil", "x"), pools}, "", kept, []source.Refusal{{Path: `"pools\x2f..\x2fevil"`, Why: "the path leads out of its folder"}}},
		"an absolute path":         {[]entry{file("/etc/passwd", "x"), pools}, "", kept, []source.Refusal{{Path: `"\x2fetc\x2fpasswd"`, Why: "the path is absolute"}}},
		"a link, and a file below": {[]entry{of(tar.TypeSymlink, "pools", "/etc"), file("pools/passwd", "x"), file("b", "b")}, "", memory{"b": "false b"}, []source.Refusal{{Path: "pools", Why: "symbolic link", Target: source.BlobOf("/etc")}}},
		"a hard link":              {[]entry{pools, of(tar.TypeLink, "b", "/etc/shadow")}, "", kept, []source.Refusal{{Path: "b", Why: "hard link", Target: source.BlobOf("/etc/shadow")}}},
		"devices":                  {[]entry{of(tar.TypeChar, "c", ""), of(tar.TypeBlock, "d", ""), of(tar.TypeFifo, "e", ""), pools}, "", kept, []source.Refusal{{Path: "c", Why: "not a regular file"}, {Path: "d", Why: "not a regular file"}, {Path: "e", Why: "not a regular file"}}},
		"a name twice":             {[]entry{pools, file("pools/a.bu", "other")}, "", kept, []source.Refusal{{Path: "pools/a.bu", Why: "the folder has two entries of this name"}}},
		"a name twice, as a link":  {[]entry{pools, of(tar.TypeSymlink, "pools/a.bu", "x")}, "", kept, []source.Refusal{{Path: "pools/a.bu", Why: "the folder has two entries of this name"}}},
		"a name with other dots":   {[]entry{pools, file("./pools/./a.bu", "other")}, "", kept, []source.Refusal{{Path: "pools/a.bu", Why: "the folder has two entries of this name"}}},
		"a folder as a file":       {[]entry{pools, file("pools", "x")}, "", kept, []source.Refusal{{Path: "pools", Why: "the folder has two entries of this name"}}},
		"a file as a folder":       {[]entry{file("pools", "x"), file("pools/a.bu", "a")}, "", memory{"pools": "false x"}, []source.Refusal{{Path: "pools", Why: "a file has the name of this folder"}}},
		"git's folder":             {[]entry{file(".git/config", "x"), file(".GIT/hooks/x", "x"), pools}, "", kept, []source.Refusal{{Path: `".GIT"`, Why: "the name is reserved for git's own folder"}, {Path: `".git"`, Why: "the name is reserved for git's own folder"}}},
		"a control character":      {[]entry{file("a\x1b[2J", "x"), pools}, "", kept, []source.Refusal{{Path: `"a\x1b[2J"`, Why: "the name holds a control character"}}},
		"a backslash":              {[]entry{file(`a\b`, "x"), pools}, "", memory{`a\b`: "false x", "pools/a.bu": "false a"}, nil},
		"an LFS pointer": {
			[]entry{file("big", "version https://git-lfs.github.com/spec/v1\n"), pools},
			"", kept,
			[]source.Refusal{{
				Path: "big", Why: source.LFSPointer,
				Target: "8fed3c028d7d2b57b9510d41270fed0c46ebf1c7e55e432823e4bc6d83fae2bd",
			}},
		},
		"sparse, PAX":          {[]entry{{tar.Header{Typeflag: tar.TypeReg, Name: "s", Mode: 0o644, Format: tar.FormatPAX}, "x"}, pools}, "", memory{"s": "false x", "pools/a.bu": "false a"}, nil},
		"one folder":           {[]entry{file("other/x", strings.Repeat("x", 5000)), of(tar.TypeSymlink, "link", "x"), file("infra/prod/pools/a.bu", "a")}, "infra/prod", kept, nil},
		"one folder, its name": {[]entry{file("infra/x", "x"), file("infra2/y", "y")}, "infra", memory{"x": "false x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			files, v, err := read(t, archivePack(t, test.entries...), test.folder)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.files, files); diff != "" {
				t.Errorf("files -want +got\n%s", diff)
			}
			if diff := cmp.Diff(test.refused, v.Refused()); diff != "" {
				t.Errorf("refused -want +got\n%s", diff)
			}
		})
	}
}

// sparse is an old GNU header of a sparse file: a few bytes that claim to be a large file.
func sparse(t *testing.T) []byte {
	raw := archivePack(t, file("s", ""), file("b", "b"))
	raw[156] = tar.TypeGNUSparse
	copy(raw[257:], "ustar  \x00")
	copy(raw[386:], "00000001000\x00")    // the hole begins
	copy(raw[386+12:], "00000000000\x00") // and has no content
	copy(raw[483:], "00000001000\x00")    // the size of the file
	for i := range 8 {
		raw[148+i] = ' '
	}
	sum := 0
	for _, b := range raw[:512] {
		sum += int(b)
	}
	copy(raw[148:], fmt.Sprintf("%06o\x00 ", sum))
	return raw
}

func TestASparseFileIsRefused(t *testing.T) {
	files, v, err := read(t, sparse(t), "")
	if err != nil || len(files) != 1 || files["b"] == "" || len(v.Refused()) != 1 ||
		v.Refused()[0].Why != "sparse file" {
		t.Errorf("got %v, %v, %v", files, v, err)
	}
}

func TestArchivesThatAreRefusedWhole(t *testing.T) {
	var many []entry
	for i := range 30 {
		many = append(many, file(fmt.Sprint("f", i), ""))
	}
	deep := file(strings.Repeat("d/", 30)+"f", "")
	claims := archivePack(t, file("big", "x"))
	copy(claims[124:], "77777777777\x00") // eight GiB, of which the archive has one byte
	for i := range 8 {
		claims[148+i] = ' '
	}
	sum := 0
	for _, b := range claims[:512] {
		sum += int(b)
	}
	copy(claims[148:], fmt.Sprintf("%06o\x00 ", sum))
	var large []entry
	for i := range 5 {
		large = append(large, file(fmt.Sprint("f", i), strings.Repeat("x", 1000)))
	}
	for name, test := range map[string]struct {
		raw    []byte
		folder string
		reason string // "" for an error that another download may fix
		words  string
	}{
		"many entries":         {archivePack(t, many...), "", v1alpha1.ReasonInvalidTree, "more than 20 files and folders"},
		"deep folders":         {archivePack(t, deep), "", v1alpha1.ReasonInvalidTree, "more than 20 files and folders"},
		"a large file":         {archivePack(t, file("f", strings.Repeat("x", 1025))), "", v1alpha1.ReasonInvalidTree, "f has 1025 bytes, at most 1024 for one file"},
		"a size without bytes": {claims, "", v1alpha1.ReasonInvalidTree, "big has 8589934591 bytes, at most 1024"},
		"many bytes":           {archivePack(t, large...), "", v1alpha1.ReasonInvalidTree, "more than 4096 bytes in all"},
		"no folder":            {archivePack(t, file("infra/prod/x", ""), file("infra/test/x", ""), file("\x1b/x", "")), "infra/stage", v1alpha1.ReasonPathNotFound, `no folder "infra/stage" in v1@sha256:aaaaaaaa: in "infra" there are the folders: prod, test`},
		"a file as the folder": {archivePack(t, file("infra", "")), "infra", v1alpha1.ReasonPathNotFound, `at the root there are the folders: none`},
		"not an archive":       {[]byte(strings.Repeat("x", 1024)), "", "", "reading the archive"},
		"half":                 {archivePack(t, file("a", strings.Repeat("x", 1000)))[:700], "", "", "reading a in the archive: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(t, test.raw, test.folder)
			var f *fault.Error
			if err == nil || !strings.Contains(err.Error(), test.words) || errors.As(err, &f) != (test.reason != "") ||
				f != nil && f.Reason != test.reason {
				t.Errorf("got %v, want %s with %q", err, test.reason, test.words)
			}
		})
	}
}

// TestTheDigestIsThatOfTheFiles: the form of an archive does not count.
func TestTheDigestIsThatOfTheFiles(t *testing.T) {
	want := source.NewInventory(limits)
	want.Add("pools/a.bu", false, []byte("a"))
	want.Add("b", true, []byte("b"))
	executable := entry{tar.Header{Typeflag: tar.TypeReg, Name: "./b", Mode: 0o755}, "b"}
	for _, entries := range [][]entry{
		{file("pools/a.bu", "a"), executable},
		{executable, of(tar.TypeDir, "./pools", ""), file("./pools/a.bu", "a"), of(tar.TypeSymlink, "l", "b")},
	} {
		if _, v, err := read(t, archivePack(t, entries...), ""); err != nil || v.Digest() != want.Digest() {
			t.Errorf("the digest differs: %v", err)
		}
	}
}

func FuzzArchive(f *testing.F) {
	f.Add(archivePack(f, file("a/b", "c"), of(tar.TypeSymlink, "d", "/")), "")
	f.Add(archivePack(f, file("../b", "c"), file("a", ""), file("a/c", "")), "a")
	f.Fuzz(func(t *testing.T, raw []byte, folder string) {
		folder, err := source.CleanPath(folder)
		if err != nil {
			return
		}
		files, v, err := read(t, raw, folder)
		if err != nil {
			return
		}
		again := source.NewInventory(limits)
		for _, p := range slices.Sorted(maps.Keys(files)) {
			for _, part := range strings.Split(p, "/") {
				if source.RefuseName(part) != "" {
					t.Errorf("the file %q was written", p)
				}
			}
			mode, content, _ := strings.Cut(files[p], " ")
			again.Add(p, mode == "true", []byte(content))
		}
		if again.Digest() != v.Digest() {
			t.Errorf("the digest is not that of the files %v", files)
		}
	})
}

// TestAPathOfAMillionBytesIsRefusedAtOnce: PAX allows such a path in an archive of a kilobyte. To enter its folders one
// by one would take a quarter of an hour.
func TestAPathOfAMillionBytesIsRefusedAtOnce(t *testing.T) {
	deep := strings.Repeat("a/", 400_000) + "a"
	for _, folder := range []string{"", "pools", "pools/worker"} {
		_, v, err := read(t, archivePack(t, file(deep, "x"), file("pools/worker/"+deep, "x"), file("pools/worker/a.bu", "a"),
			file("pools/b", "b")), folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range v.Refused() {
			if !strings.Contains(r.Why, "bytes, at most 1024") || len(r.Path) > 200 {
				t.Errorf("%q: %.200q: %s", folder, r.Path, r.Why)
			}
		}
		if want := map[string]int{"": 2, "pools": 1, "pools/worker": 1}[folder]; len(v.Refused()) != want {
			t.Errorf("%q: %d entries are refused", folder, len(v.Refused()))
		}
	}
}
